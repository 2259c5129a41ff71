#include "backends/caching_allocator.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"

namespace {
std::atomic<std::uint64_t> heap_allocations{0};
}

// Counts every allocation of this test program, so that "allocates nothing" can be observed. Not inlined: GCC would
// warn that malloc and delete, or new and free, do not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++heap_allocations;
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::size_t /*bytes*/) noexcept { std::free(data); }

namespace headroom {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class CachingAllocatorTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  CachingAllocator allocator_{*backend_, MemoryCategory::kActivations};
};

TEST_F(CachingAllocatorTest, RoundsRequestsUp) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{512}}) {
    const auto block = allocator_.allocate(bytes);
    EXPECT_EQ(block.bytes, 512U) << bytes;
    allocator_.free(block);
  }
  EXPECT_EQ(allocator_.allocate(513).bytes, 1024U);
}

TEST_F(CachingAllocatorTest, ReusesWhatWasFreed) {
  const auto first = allocator_.allocate(3 * kMiB);
  allocator_.free(first);
  const auto second = allocator_.allocate(3 * kMiB);
  EXPECT_EQ(second.at, first.at);
  EXPECT_EQ(backend_->memory_use().allocations, 1U);
}

TEST_F(CachingAllocatorTest, TakesTheSmallestBlockThatFits) {
  const auto large = allocator_.allocate(24 * kMiB);
  const auto medium = allocator_.allocate(14 * kMiB);
  const auto larger = allocator_.allocate(30 * kMiB);
  for (const auto& block : {larger, large, medium}) allocator_.free(block);
  EXPECT_EQ(allocator_.allocate(13 * kMiB + kMiB / 2).at, medium.at);
  EXPECT_EQ(allocator_.allocate(24 * kMiB).at, large.at);
}

TEST_F(CachingAllocatorTest, JoinsFreeNeighboursInAnyOrder) {
  for (const auto& order : {std::vector{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
    std::vector<CachingAllocator::Block> blocks(3);
    for (auto& block : blocks) block = allocator_.allocate(6 * kMiB);
    ASSERT_EQ(blocks[1].at, blocks[0].at + 6 * kMiB) << "one segment serves all three";
    for (const int i : order) allocator_.free(blocks[static_cast<std::size_t>(i)]);
    const auto whole = allocator_.allocate(20 * kMiB);
    EXPECT_EQ(whole.at, blocks[0].at);
    allocator_.free(whole);
  }
  EXPECT_EQ(allocator_.reserved_bytes(), 20 * kMiB);
}

TEST_F(CachingAllocatorTest, SmallRequestsLeaveLargeBlocksWhole) {
  allocator_.free(allocator_.allocate(12 * kMiB));
  const auto small = allocator_.allocate(100);
  EXPECT_EQ(allocator_.reserved_bytes(), 14 * kMiB);
  const auto large = allocator_.allocate(12 * kMiB);
  EXPECT_EQ(allocator_.reserved_bytes(), 14 * kMiB);
  allocator_.free(small);
  allocator_.free(large);
}

TEST_F(CachingAllocatorTest, CountsReservedUsedAndPeak) {
  const auto a = allocator_.allocate(1000);
  const auto b = allocator_.allocate(2 * kMiB);
  EXPECT_EQ(allocator_.used_bytes(), 1024 + 2 * kMiB);
  EXPECT_EQ(allocator_.reserved_bytes(), 22 * kMiB);
  EXPECT_EQ(backend_->memory_use().total, 22 * kMiB);
  allocator_.free(b);
  EXPECT_EQ(allocator_.used_bytes(), 1024U);
  EXPECT_EQ(allocator_.peak_used_bytes(), 1024 + 2 * kMiB);
  allocator_.reset_peak();
  EXPECT_EQ(allocator_.peak_used_bytes(), 1024U);
  allocator_.trim();
  EXPECT_EQ(allocator_.reserved_bytes(), 2 * kMiB) << "the segment that is in use stays";
  allocator_.free(a);
  allocator_.trim();
  EXPECT_EQ(allocator_.reserved_bytes(), 0U);
  EXPECT_EQ(backend_->memory_use().total, 0U);
}

TEST_F(CachingAllocatorTest, KeepsSegmentsThatRecordingsUse) {
  allocator_.free(allocator_.allocate(2 * kMiB));
  allocator_.keep_segments();
  const std::size_t reserved = allocator_.reserved_bytes();
  allocator_.trim();
  EXPECT_EQ(allocator_.reserved_bytes(), reserved);
  EXPECT_THROW((void)allocator_.allocate(std::size_t{1} << 60), Error) << "no room, and none is made";
  EXPECT_EQ(allocator_.reserved_bytes(), reserved);
}

TEST_F(CachingAllocatorTest, FreeingTwiceIsCaught) {
  const auto a = allocator_.allocate(100);
  const auto b = allocator_.allocate(100);
  allocator_.free(a);
  EXPECT_THROW(allocator_.free(a), std::logic_error);
  allocator_.free(b);
  EXPECT_THROW(allocator_.free(b), std::logic_error) << "joined with its neighbour, its record is no longer in use";
}

TEST_F(CachingAllocatorTest, OutOfMemoryGivesBackTheCacheAndThenFails) {
  allocator_.free(allocator_.allocate(12 * kMiB));
  EXPECT_THROW((void)allocator_.allocate(std::size_t{1} << 46), Error);
  EXPECT_THROW((void)allocator_.allocate(SIZE_MAX), Error);
  EXPECT_EQ(allocator_.reserved_bytes(), 0U);
  EXPECT_EQ(allocator_.used_bytes(), 0U);
}

/// Random traffic: blocks never overlap (each keeps its own fill) and everything comes together again at the end.
TEST_F(CachingAllocatorTest, BlocksNeverOverlap) {
  struct Live {
    CachingAllocator::Block block;
    std::size_t bytes;
    unsigned char fill;
  };
  std::mt19937_64 random(7);
  std::vector<Live> live;
  const auto check_and_free = [&](std::size_t at) {
    const Live& entry = live[at];
    bool intact = true;
    for (std::size_t i = 0; i < entry.bytes; i += 97)
      intact = intact && std::to_integer<unsigned char>(entry.block.at.address<std::byte>()[i]) == entry.fill;
    EXPECT_TRUE(intact) << "a block of " << entry.bytes << " bytes was written by another's owner";
    allocator_.free(entry.block);
    live[at] = live.back();
    live.pop_back();
  };
  for (int step = 0; step < 3000; ++step) {
    if (!live.empty() && (live.size() > 40 || random() % 2 == 0)) {
      check_and_free(random() % live.size());
    } else {
      const std::size_t bytes = std::size_t{1} << (random() % 22);
      const std::size_t odd = bytes + random() % bytes;
      live.push_back({allocator_.allocate(odd), odd, static_cast<unsigned char>(step)});
      std::memset(live.back().block.at.address(), static_cast<unsigned char>(step), odd);
    }
  }
  while (!live.empty()) check_and_free(live.size() - 1);
  EXPECT_EQ(allocator_.used_bytes(), 0U);
  allocator_.trim();
  EXPECT_EQ(allocator_.reserved_bytes(), 0U);
}

TEST_F(CachingAllocatorTest, SteadyStateAllocatesNothing) {
  std::vector<CachingAllocator::Block> live;
  live.reserve(64);
  const auto pass = [&] {
    for (std::size_t i = 1; i <= 40; ++i) {
      live.push_back(allocator_.allocate(i * 70000));
      if (i % 3 == 0) {
        allocator_.free(live.front());
        live.erase(live.begin());
      }
    }
    for (const auto& block : live) allocator_.free(block);
    live.clear();
  };
  pass();
  pass();
  const std::uint64_t heap_before = heap_allocations;
  const std::uint64_t device_before = backend_->memory_use().allocations;
  for (int i = 0; i < 10; ++i) pass();
  EXPECT_EQ(heap_allocations, heap_before);
  EXPECT_EQ(backend_->memory_use().allocations, device_before);
  EXPECT_GT(heap_before, 0U) << "the counter itself must work";
}

}  // namespace
}  // namespace headroom
