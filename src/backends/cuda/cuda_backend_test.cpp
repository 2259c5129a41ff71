#include "backends/cuda/cuda_backend.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"

namespace headroom {
namespace {

using CudaBackendTest = GpuTest;

std::vector<std::uint32_t> counted(std::size_t count) {
  std::vector<std::uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0x1234567U);
  return values;
}

TEST_F(CudaBackendTest, TellsWhatTheDeviceIs) {
  const DeviceProperties properties = backend().properties();
  EXPECT_EQ(properties.name.find("NVIDIA"), 0U) << properties.name;
  EXPECT_EQ(properties.target.device, DeviceKind::kCuda);
  EXPECT_GE(properties.target.compute_capability, 80);
  EXPECT_GT(properties.target.multiprocessors, 0);
  EXPECT_GT(properties.available_bytes, std::size_t{1} << 30);
  EXPECT_GE(properties.memory_bytes, properties.available_bytes);
  EXPECT_GT(properties.clock_mhz, 500);
  EXPECT_GT(properties.memory_clock_mhz, 500);
  EXPECT_NE(properties.driver.find('.'), std::string::npos);
}

TEST_F(CudaBackendTest, BlocksAreAlignedAndBooked) {
  {
    const Buffer none = backend().allocate(0, MemoryCategory::kInputs);
    const Buffer odd = backend().allocate(1001, MemoryCategory::kWeights);
    for (const Buffer* buffer : {&none, &odd}) {
      ASSERT_NE(buffer->data(), nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 256, 0U);
    }
    EXPECT_EQ(backend().memory_use().total, 1001U);
    EXPECT_GE(backend().reserved_bytes(), 1001U);
  }
  EXPECT_EQ(backend().memory_use().total, 0U);
  EXPECT_EQ(backend().memory_use().peak, 1001U);
}

TEST_F(CudaBackendTest, FreedMemoryIsReusedInsteadOfReservingMore) {
  std::size_t reserved = 0;
  for (int i = 0; i < 20; ++i) {
    const Buffer block = backend().allocate(std::size_t{96} << 20, MemoryCategory::kActivations);
    if (i == 1) reserved = backend().reserved_bytes();
    if (i > 1) {
      EXPECT_EQ(backend().reserved_bytes(), reserved);
    }
  }
}

TEST_F(CudaBackendTest, CopiesOfEverySizeArriveWhole) {
  const auto stream = backend().make_stream();
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{64} << 10, (std::size_t{64} << 10) + 4,
                                  (std::size_t{100} << 20) + 12}) {  // direct, and staged through every slot twice
    std::vector<std::uint32_t> values = counted(bytes / 4);
    const std::vector<std::uint32_t> expected = values;
    const Buffer a = backend().allocate(bytes, MemoryCategory::kInputs);
    const Buffer b = backend().allocate(bytes, MemoryCategory::kInputs);
    backend().copy_from_host(*stream, a.data(), values.data(), bytes);
    std::fill(values.begin(), values.end(), 0U);  // which the copy must not see
    backend().copy_on_device(*stream, b.data(), a.data(), bytes);
    std::vector<std::uint32_t> back(bytes / 4);
    backend().copy_to_host(*stream, back.data(), b.data(), bytes);
    stream->synchronize();
    EXPECT_EQ(back, expected) << bytes;
  }
}

TEST_F(CudaBackendTest, MemoryFreedUnderRunningWorkIsNotHandedOutBeforeItEnds) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  const auto busy = backend().make_stream();
  const auto other = backend().make_stream();
  const std::vector<std::uint32_t> values = counted(kBytes / 4);
  const Buffer result = backend().allocate(kBytes, MemoryCategory::kActivations);
  {
    const Buffer source = backend().allocate(kBytes, MemoryCategory::kActivations);
    backend().copy_from_host(*busy, source.data(), values.data(), kBytes);
    for (int i = 0; i < 20; ++i) backend().copy_on_device(*busy, result.data(), source.data(), kBytes);
  }  // freed while the copies from it run
  const Buffer taken = backend().allocate(kBytes, MemoryCategory::kActivations);
  ASSERT_EQ(cudaMemsetAsync(taken.data(), 0, kBytes, static_cast<cudaStream_t>(other->native_handle())), cudaSuccess);
  std::vector<std::uint32_t> back(kBytes / 4);
  backend().copy_to_host(*busy, back.data(), result.data(), kBytes);
  busy->synchronize();
  EXPECT_EQ(back, values);
}

TEST_F(CudaBackendTest, OutOfMemorySaysWhatIsNeededAndWhatThereIs) {
  for (const std::size_t bytes : {std::size_t{1} << 45, backend().properties().memory_bytes + 1}) {
    try {
      (void)backend().allocate(bytes, MemoryCategory::kWeights);
      FAIL() << "allocated " << bytes << " bytes";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(std::to_string(bytes) + " bytes are needed"), std::string::npos) << text;
      EXPECT_NE(text.find("are available"), std::string::npos) << text;
    }
  }
  const Buffer small = backend().allocate(64, MemoryCategory::kWeights);  // and the device still works
  EXPECT_NE(small.data(), nullptr);
}

TEST_F(CudaBackendTest, EventsMeasureTheTimeBetweenThem) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const auto stream = backend().make_stream();
  const Buffer a = backend().allocate(kBytes, MemoryCategory::kActivations);
  const Buffer b = backend().allocate(kBytes, MemoryCategory::kActivations);
  const auto start = backend().make_event();
  const auto stop = backend().make_event();
  start->record(*stream);
  for (int i = 0; i < 10; ++i) backend().copy_on_device(*stream, b.data(), a.data(), kBytes);
  stop->record(*stream);
  EXPECT_GT(stop->milliseconds_since(*start), 0.5);  // no memory moves 20 GiB in less
  EXPECT_LT(stop->milliseconds_since(*start), 10000.0);
}

TEST_F(CudaBackendTest, WorksOnAStreamOfTheCallersOwn) {
  cudaStream_t native = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  {
    const auto stream = backend().adopt_stream(native);
    EXPECT_EQ(stream->native_handle(), native);
    const Buffer block = backend().allocate(16, MemoryCategory::kInputs);
    const std::uint32_t sent = 77;
    std::uint32_t back = 0;
    backend().copy_from_host(*stream, block.data(), &sent, sizeof sent);
    backend().copy_to_host(*stream, &back, block.data(), sizeof back);
    stream->synchronize();
    EXPECT_EQ(back, sent);
  }
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess) << "an adopted stream stays its owner's";
}

}  // namespace
}  // namespace headroom
