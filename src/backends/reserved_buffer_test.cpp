// Buffers whose memory is unmapped and mapped again at the same addresses.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/out_of_memory.hpp"

namespace headroom {
namespace {

void go_and_come_back(Backend& backend) {
  const std::size_t granularity = backend.reserve_granularity();
  ASSERT_GT(granularity, 0U);
  const auto stream = backend.make_stream();
  Buffer buffer = backend.reserve(2 * granularity + 1, MemoryCategory::kWeights);
  EXPECT_EQ(buffer.bytes(), 3 * granularity);
  EXPECT_EQ(buffer.bytes(), backend.reserved_size(2 * granularity + 1));
  const DevicePointer place = buffer.at();
  const MemoryUse there = backend.memory_use();
  std::vector<std::uint32_t> sent(buffer.bytes() / sizeof(std::uint32_t)), back(sent.size());
  for (std::uint32_t round = 0; round < 100; ++round) {
    std::ranges::generate(sent, [next = round]() mutable { return next += 2654435761U; });
    backend.copy_from_host(*stream, buffer.at(), sent.data(), buffer.bytes());
    backend.copy_to_host(*stream, back.data(), buffer.at(), buffer.bytes());
    stream->synchronize();
    ASSERT_EQ(back, sent) << round;
    buffer.unload();
    ASSERT_FALSE(buffer.is_loaded());
    ASSERT_EQ(backend.memory_use().total, there.total - buffer.bytes());
    ASSERT_EQ(backend.memory_use().used.at(static_cast<std::size_t>(MemoryCategory::kWeights)), 0U);
    buffer.reload();
    ASSERT_TRUE(buffer.is_loaded());
    ASSERT_EQ(buffer.at(), place);
    ASSERT_EQ(backend.memory_use().total, there.total);
  }
  EXPECT_EQ(backend.memory_use().peak, there.peak);
  EXPECT_EQ(backend.memory_use().allocations, there.allocations);
}

TEST(ReservedBuffers, GoAndComeBackAtTheSamePlace) { go_and_come_back(*make_backend(DeviceKind::kCpu, 1)); }

using ReservedBuffersOnAGpu = GpuTest;

TEST_F(ReservedBuffersOnAGpu, GoAndComeBackAtTheSamePlace) { go_and_come_back(backend()); }

/// A small, long-lived block allocated among large temporary ones keeps none of their memory.
TEST_F(ReservedBuffersOnAGpu, SmallBlocksKeepNoLargeOnes) {
  constexpr std::size_t kLarge = std::size_t{64} << 20;
  backend().release_unused();
  std::vector<Buffer> small;
  small.push_back(backend().allocate(1024, MemoryCategory::kWeights));
  const std::size_t before = backend().reserved_bytes();
  for (int i = 0; i < 8; ++i) {
    Buffer large = backend().allocate(kLarge, MemoryCategory::kWorkspace);
    large = {};
    small.push_back(backend().allocate(1024, MemoryCategory::kWeights));
  }
  backend().release_unused();
  EXPECT_LT(backend().reserved_bytes(), before + kLarge);
}

TEST_F(ReservedBuffersOnAGpu, GiveTheirMemoryToOthers) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  backend().release_unused();
  const std::size_t before = backend().reserved_bytes();
  Buffer buffer = backend().reserve(kBytes, MemoryCategory::kWeights);
  EXPECT_EQ(backend().reserved_bytes(), before + kBytes);
  buffer.unload();
  backend().release_unused();
  EXPECT_EQ(backend().reserved_bytes(), before);
  buffer.reload();
  EXPECT_EQ(backend().reserved_bytes(), before + kBytes);
}

/// A copy from a buffer before it is unloaded is right, whoever writes there after reload.
TEST_F(ReservedBuffersOnAGpu, GoWhenWhatUsesThemIsDone) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const auto busy = backend().make_stream(), other = backend().make_stream();
  const Buffer result = backend().allocate(kBytes, MemoryCategory::kActivations);
  Buffer source = backend().reserve(kBytes, MemoryCategory::kWeights);
  std::vector<std::uint32_t> sent(kBytes / sizeof(std::uint32_t), 7), back(sent.size());
  const std::vector<std::uint32_t> others(sent.size(), 8);
  backend().copy_from_host(*busy, source.at(), sent.data(), kBytes);
  for (int i = 0; i < 20; ++i) backend().copy_on_device(*busy, result.at(), source.at(), kBytes);
  source.unload();
  source.reload();
  backend().copy_from_host(*other, source.at(), others.data(), kBytes);
  backend().copy_to_host(*busy, back.data(), result.at(), kBytes);
  busy->synchronize();
  EXPECT_EQ(back, sent);
}

TEST(ReservedBuffers, OfACpuAreNotThereWhileUnloaded) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  Buffer buffer = backend->reserve(2 * backend->reserve_granularity(), MemoryCategory::kWeights);
  const auto pages = buffer.bytes() / static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto resident = [&] {
    std::vector<unsigned char> is_resident(pages);
    EXPECT_EQ(mincore(buffer.at().address(), buffer.bytes(), is_resident.data()), 0);
    return static_cast<std::size_t>(std::ranges::count_if(is_resident, [](unsigned char page) { return page & 1U; }));
  };
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  /// Makes the kernel read the last byte: it returns an error where a program's own read would be fatal.
  const auto error_of_a_read = [&] {
    return write(ends[1], buffer.at(buffer.bytes() - 1).address(), 1) == 1 ? 0 : errno;
  };
  for (int round = 0; round < 3; ++round) {
    std::fill_n(buffer.at().address<std::byte>(), buffer.bytes(), std::byte{1});
    EXPECT_EQ(resident(), pages);
    EXPECT_EQ(error_of_a_read(), 0);
    buffer.unload();
    EXPECT_EQ(resident(), 0U);
    EXPECT_EQ(error_of_a_read(), EFAULT);
    buffer.reload();
    EXPECT_EQ(error_of_a_read(), 0);
  }
  close(ends[0]);
  close(ends[1]);
}

TEST(ReservedBuffers, AreForWhatIsLarge) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const std::size_t less = backend->reserve_granularity() - 1;
  EXPECT_EQ(backend->reserved_size(less), less);
  Buffer small = backend->reserve(less, MemoryCategory::kWeights);
  EXPECT_EQ(small.bytes(), less);
  EXPECT_FALSE(small.can_unload());
  EXPECT_THROW(small.unload(), std::logic_error);
  EXPECT_THROW((void)backend->reserve(SIZE_MAX / 2, MemoryCategory::kWeights), OutOfMemory);
  EXPECT_THROW((void)backend->reserve(SIZE_MAX, MemoryCategory::kWeights), OutOfMemory);
  EXPECT_EQ(backend->memory_use().total, less);
}

TEST(ReservedBuffers, AreMovedAndFreedWhileUnloaded) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  Buffer first = backend->reserve(backend->reserve_granularity(), MemoryCategory::kWeights);
  const DevicePointer place = first.at();
  first.unload();
  EXPECT_THROW(first.unload(), std::logic_error);
  Buffer second = std::move(first);
  EXPECT_FALSE(second.is_loaded());
  second.reload();
  EXPECT_THROW(second.reload(), std::logic_error);
  EXPECT_EQ(second.at(), place);
  *second.at().address<char>() = 1;
  second.unload();
  second = Buffer();
  EXPECT_EQ(backend->memory_use().total, 0U);
}

}  // namespace
}  // namespace headroom
