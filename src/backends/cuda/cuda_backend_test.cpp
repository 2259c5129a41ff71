#include "backends/cuda/cuda_backend.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/text/format.hpp"

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
      ASSERT_TRUE(buffer->at());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->at().address()) % 256, 0U);
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

TEST_F(CudaBackendTest, GivesBackWhatNobodyUses) {
  const Buffer kept = backend().allocate(std::size_t{64} << 20, MemoryCategory::kActivations);
  (void)backend().allocate(std::size_t{256} << 20, MemoryCategory::kActivations);
  EXPECT_GE(backend().reserved_bytes(), std::size_t{320} << 20);
  backend().release_unused();
  EXPECT_GE(backend().reserved_bytes(), kept.bytes());
  EXPECT_LT(backend().reserved_bytes(), std::size_t{256} << 20);
}

TEST_F(CudaBackendTest, CopiesOfEverySizeArriveWhole) {
  const auto stream = backend().make_stream();
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{64} << 10, (std::size_t{64} << 10) + 4,
                                  (std::size_t{100} << 20) + 12}) {  // direct, and staged through every slot twice
    std::vector<std::uint32_t> values = counted(bytes / 4);
    const std::vector<std::uint32_t> expected = values;
    const Buffer a = backend().allocate(bytes, MemoryCategory::kInputs);
    const Buffer b = backend().allocate(bytes, MemoryCategory::kInputs);
    backend().copy_from_host(*stream, a.at(), values.data(), bytes);
    std::fill(values.begin(), values.end(), 0U);  // the copy must not see this
    backend().copy_on_device(*stream, b.at(), a.at(), bytes);
    std::vector<std::uint32_t> back(bytes / 4);
    backend().copy_to_host(*stream, back.data(), b.at(), bytes);
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
    backend().copy_from_host(*busy, source.at(), values.data(), kBytes);
    for (int i = 0; i < 20; ++i) backend().copy_on_device(*busy, result.at(), source.at(), kBytes);
  }  // freed while the copies from it run
  const Buffer taken = backend().allocate(kBytes, MemoryCategory::kActivations);
  ASSERT_EQ(cudaMemsetAsync(taken.at().address(), 0, kBytes, static_cast<cudaStream_t>(other->native_handle())),
            cudaSuccess);
  std::vector<std::uint32_t> back(kBytes / 4);
  backend().copy_to_host(*busy, back.data(), result.at(), kBytes);
  busy->synchronize();
  EXPECT_EQ(back, values);
}

TEST_F(CudaBackendTest, BlocksTakenWhileWorkRunsAreOrderedBehindIt) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const auto busy = backend().make_stream();
  const Buffer source = backend().allocate(kBytes, MemoryCategory::kActivations);
  std::vector<std::uint32_t> back(kBytes / 4);
  for (std::uint32_t round = 0; round < 4; ++round) {
    // The previous round's block is freed while copies use it; this one may get the same address.
    const Buffer block = backend().allocate(kBytes, MemoryCategory::kActivations);
    const auto late = backend().make_stream();
    backend().fill_normal(*late, block.at(), DType::kF32, kBytes / 4, {.seed = round});
    late->synchronize();
    for (int i = 0; i < 5; ++i) backend().copy_on_device(*busy, source.at(), block.at(), kBytes);
    backend().copy_to_host(*busy, back.data(), block.at(), kBytes);
    busy->synchronize();
    std::array<float, 1024> expected{};
    fill_normal(expected, round, 0);
    EXPECT_EQ(std::memcmp(back.data(), expected.data(), sizeof expected), 0) << round;
  }
}

TEST_F(CudaBackendTest, DrawsTheSameBitsAsAHost) {
  const auto stream = backend().make_stream();
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3})
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{4099}, std::uint64_t{1} << 21}) {
      const NormalStream from{.seed = 0x1234567890ULL, .stream = ~count, .mean = 1, .deviation = 0.02F};
      const std::size_t bytes = count * size_of(dtype);
      std::vector<std::byte> back(bytes), expected(bytes);
      store_normal(expected.data(), dtype, count, from);
      for (const std::size_t before : {std::size_t{0}, size_of(dtype)}) {  // a part of a tensor may begin there
        const Buffer drawn = backend().allocate(before + bytes, MemoryCategory::kWeights);
        backend().fill_normal(*stream, drawn.at(before), dtype, count, from);
        backend().copy_to_host(*stream, back.data(), drawn.at(before), bytes);
        stream->synchronize();
        EXPECT_EQ(back, expected) << name_of(dtype) << ", " << count << ", behind " << before << " bytes";
      }
    }
}

TEST_F(CudaBackendTest, RecordedWorkRunsWhenItIsReplayed) {
  const auto stream = backend().make_stream();
  const Buffer a = backend().allocate(64, MemoryCategory::kActivations);
  const Buffer b = backend().allocate(64, MemoryCategory::kActivations);
  const auto read_b = [&] {
    std::uint32_t value = 0;
    backend().copy_to_host(*stream, &value, b.at(), sizeof value);
    stream->synchronize();
    return value;
  };
  const auto write = [&](const Buffer& to, std::uint32_t value) {
    backend().copy_from_host(*stream, to.at(), &value, sizeof value);
  };
  write(a, 1);
  write(b, 0);
  const auto recording = backend().record(*stream, [&] { backend().copy_on_device(*stream, b.at(), a.at(), 64); });
  EXPECT_EQ(read_b(), 0U) << "recording must not run what it records";
  for (const std::uint32_t value : {2U, 3U}) {
    write(a, value);
    recording->replay(*stream);
    EXPECT_EQ(read_b(), value);
  }
}

TEST_F(CudaBackendTest, MemoryMayBeTakenAndFreedWhileAStreamIsRecorded) {
  const auto stream = backend().make_stream();
  const Buffer to = backend().allocate(64, MemoryCategory::kActivations);
  Buffer from;
  const auto recording = backend().record(*stream, [&] {
    const Buffer passing = backend().allocate(std::size_t{1} << 20, MemoryCategory::kActivations);
    from = backend().allocate(64, MemoryCategory::kActivations);
    backend().copy_on_device(*stream, to.at(), from.at(), 64);
  });
  const std::uint32_t sent = 9;
  std::uint32_t back = 0;
  backend().copy_from_host(*stream, from.at(), &sent, sizeof sent);
  recording->replay(*stream);
  backend().copy_to_host(*stream, &back, to.at(), sizeof back);
  stream->synchronize();
  EXPECT_EQ(back, sent);
}

TEST_F(CudaBackendTest, AFailureWhileRecordingLeavesTheStreamUsable) {
  const auto stream = backend().make_stream();
  const Buffer block = backend().allocate(64, MemoryCategory::kActivations);
  EXPECT_THROW((void)backend().record(*stream, [] { fail("this launch was refused"); }), Error);
  const std::uint32_t sent = 5;
  std::uint32_t back = 0;
  backend().copy_from_host(*stream, block.at(), &sent, sizeof sent);
  backend().copy_to_host(*stream, &back, block.at(), sizeof back);
  stream->synchronize();
  EXPECT_EQ(back, sent);
}

TEST_F(CudaBackendTest, ATraceTellsWhatRanAndWhen) {
  std::unique_ptr<DeviceTrace> trace;
  try {
    trace = backend().make_trace();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_THROW((void)backend().make_trace(), Error) << "there is one at a time";
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto stream = backend().make_stream();
  const Buffer a = backend().allocate(kBytes, MemoryCategory::kActivations);
  const Buffer b = backend().allocate(kBytes, MemoryCategory::kActivations);
  const auto submit = [&] {
    backend().fill_normal(*stream, a.at(), DType::kF32, kBytes / 4, {.seed = 1});
    backend().copy_on_device(*stream, b.at(), a.at(), kBytes);
  };
  const std::int64_t before_ns = trace->now_ns();
  submit();
  stream->synchronize();
  const std::int64_t after_ns = trace->now_ns();
  backend().record(*stream, submit)->replay(*stream);
  const std::vector<DeviceActivity> activities = trace->collect();
  ASSERT_EQ(activities.size(), 4U);
  for (const std::size_t first : {0U, 2U}) {
    EXPECT_EQ(activities[first].kind, DeviceActivity::Kind::kKernel);
    EXPECT_NE(activities[first].name.find("fill_kernel"), std::string::npos) << activities[first].name;
    EXPECT_EQ(activities[first].in_replay != 0, first == 2U);
    if (first == 2U) {  // the order of recording, whatever stream it runs on
      EXPECT_EQ(activities[first].launch, activities[first + 1].launch);
      EXPECT_LT(activities[first].in_replay, activities[first + 1].in_replay);
    } else {
      EXPECT_LT(activities[first].launch, activities[first + 1].launch);
    }
    EXPECT_NE(activities[first + 1].kind, DeviceActivity::Kind::kHostCopy);
    EXPECT_LE(activities[first].start_ns, activities[first].end_ns);
    EXPECT_LE(activities[first].start_ns, activities[first + 1].start_ns);
    EXPECT_EQ(activities[first].stream, activities[first + 1].stream);
  }
  EXPECT_LE(before_ns, activities[0].start_ns);
  EXPECT_LE(activities[1].end_ns, after_ns);
  EXPECT_TRUE(trace->collect().empty()) << "the same twice";
  trace.reset();
  trace = backend().make_trace();
  submit();
  EXPECT_EQ(trace->collect().size(), 2U) << "a trace after another sees its own work";
}

TEST_F(CudaBackendTest, OutOfMemorySaysWhatIsNeededAndWhatThereIs) {
  for (const std::size_t bytes : {std::size_t{1} << 45, backend().properties().memory_bytes + 1}) {
    try {
      (void)backend().allocate(bytes, MemoryCategory::kWeights);
      FAIL() << "allocated " << bytes << " bytes";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(format_bytes(bytes) + " are needed"), std::string::npos) << text;
      EXPECT_NE(text.find("are available"), std::string::npos) << text;
    }
  }
  const Buffer small = backend().allocate(64, MemoryCategory::kWeights);  // and the device still works
  EXPECT_TRUE(small.at());
}

TEST_F(CudaBackendTest, EventsMeasureTheTimeBetweenThem) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const auto stream = backend().make_stream();
  const Buffer a = backend().allocate(kBytes, MemoryCategory::kActivations);
  const Buffer b = backend().allocate(kBytes, MemoryCategory::kActivations);
  const auto start = backend().make_event();
  const auto stop = backend().make_event();
  start->record(*stream);
  for (int i = 0; i < 10; ++i) backend().copy_on_device(*stream, b.at(), a.at(), kBytes);
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
    backend().copy_from_host(*stream, block.at(), &sent, sizeof sent);
    backend().copy_to_host(*stream, &back, block.at(), sizeof back);
    stream->synchronize();
    EXPECT_EQ(back, sent);
  }
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess) << "an adopted stream stays its owner's";
}

}  // namespace
}  // namespace headroom
