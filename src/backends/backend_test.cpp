#include "backends/backend.hpp"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_info.hpp"
#include "base/error.hpp"
#include "base/text/format.hpp"

namespace headroom {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 63, 4096, (4U << 20) - 1, 4U << 20, (6U << 20) + 5};

TEST(CpuBackend, BlocksAreAlignedAndWritableAtEverySize) {
  const auto backend = make_backend(DeviceKind::kCpu);
  for (const std::size_t bytes : kSizes) {
    const Buffer buffer = backend->allocate(bytes, MemoryCategory::kActivations);
    ASSERT_TRUE(buffer.at()) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.at().address()) % 64, 0U) << bytes;
    std::memset(buffer.at().address(), 0x5A, bytes);
    if (bytes != 0) {
      EXPECT_EQ(std::to_integer<int>(*buffer.at(bytes - 1).address<std::byte>()), 0x5A);
    }
  }
  EXPECT_EQ(backend->memory_use().total, 0U);
}

TEST(CpuBackend, MakesEachContextOnceAndKeepsItAsLongAsItIsUsed) {
  struct Inner {
    explicit Inner(Backend& on) : backend(&on) {}
    Backend* backend;
  };
  struct Outer {
    explicit Outer(Backend& on) : inner(on.context<Inner>()) {}
    std::shared_ptr<Inner> inner;
  };
  struct Failing {
    explicit Failing(Backend& /*on*/) { fail("not there"); }
  };
  auto backend = make_backend(DeviceKind::kCpu), other = make_backend(DeviceKind::kCpu);
  const std::shared_ptr<Outer> outer = backend->context<Outer>();
  EXPECT_EQ(outer->inner->backend, backend.get());
  EXPECT_EQ(backend->context<Outer>(), outer);
  EXPECT_EQ(backend->context<Inner>(), outer->inner);
  EXPECT_NE(other->context<Inner>(), outer->inner);
  for (int attempt = 0; attempt < 2; ++attempt) EXPECT_THROW(static_cast<void>(backend->context<Failing>()), Error);
  const std::weak_ptr<Inner> unused = other->context<Inner>();
  other.reset();
  EXPECT_TRUE(unused.expired());
  backend.reset();
  EXPECT_EQ(outer.use_count(), 1);
}

TEST(CpuBackend, BooksEveryByteUnderItsCategory) {
  const auto backend = make_backend(DeviceKind::kCpu);
  Buffer weights = backend->allocate(1000, MemoryCategory::kWeights);
  {
    const Buffer state = backend->allocate(24, MemoryCategory::kState);
    EXPECT_EQ(backend->memory_use().used[static_cast<std::size_t>(MemoryCategory::kWeights)], 1000U);
    EXPECT_EQ(backend->memory_use().used[static_cast<std::size_t>(MemoryCategory::kState)], 24U);
    EXPECT_EQ(backend->memory_use().total, 1024U);
  }
  EXPECT_EQ(backend->memory_use().used[static_cast<std::size_t>(MemoryCategory::kState)], 0U);
  EXPECT_EQ(backend->memory_use().total, 1000U);
  EXPECT_EQ(backend->memory_use().peak, 1024U);
  EXPECT_EQ(backend->memory_use().allocations, 2U);
  backend->reset_peak();
  EXPECT_EQ(backend->memory_use().peak, 1000U);

  Buffer moved = std::move(weights);
  EXPECT_EQ(backend->memory_use().total, 1000U) << "moving must not book twice";
  moved = backend->allocate(8, MemoryCategory::kInputs);
  EXPECT_EQ(backend->memory_use().total, 8U) << "the block that was assigned over must be freed at once";
}

TEST(CpuBackend, OutOfMemorySaysWhatIsNeededAndWhatThereIs) {
  const auto backend = make_backend(DeviceKind::kCpu);
  for (const std::size_t bytes : {std::size_t{1} << 46, SIZE_MAX}) {
    try {
      (void)backend->allocate(bytes, MemoryCategory::kWeights);
      FAIL() << "allocated " << bytes << " bytes";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(format_bytes(bytes) + " are needed"), std::string::npos) << error.what();
      EXPECT_EQ(error.code(), ExitCode::kError);
    }
  }
  EXPECT_EQ(backend->memory_use().total, 0U);
}

TEST(CpuBackend, CopiesThereAndBack) {
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto stream = backend->make_stream();
  const std::string text = "headroom";
  const Buffer a = backend->allocate(text.size(), MemoryCategory::kInputs);
  const Buffer b = backend->allocate(text.size(), MemoryCategory::kInputs);
  backend->copy_from_host(*stream, a.at(), text.data(), text.size());
  backend->copy_on_device(*stream, b.at(), a.at(), text.size());
  std::string back(text.size(), '?');
  backend->copy_to_host(*stream, back.data(), b.at(), text.size());
  stream->synchronize();
  EXPECT_EQ(back, text);
  EXPECT_EQ(stream->native_handle(), nullptr);
}

TEST(CpuBackend, DrawsTheElementsOfAStream) {
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto stream = backend->make_stream();
  constexpr std::uint64_t kCount = (1 << 17) + 3;  // several threads, and a block cut short
  const NormalStream from{.seed = 3, .stream = 4, .mean = 1, .deviation = 0.5F};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const std::size_t bytes = kCount * size_of(dtype);
    const Buffer drawn = backend->allocate(bytes, MemoryCategory::kWeights);
    backend->fill_normal(*stream, drawn.at(), dtype, kCount, from);
    std::vector<std::byte> expected(bytes);
    store_normal(expected.data(), dtype, kCount, from);
    EXPECT_EQ(std::memcmp(drawn.at().address(), expected.data(), bytes), 0) << name_of(dtype);
  }
}

TEST(CpuBackend, HasNothingToRecord) {
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto stream = backend->make_stream();
  bool was_submitted = false;
  EXPECT_THROW((void)backend->record(*stream, [&] { was_submitted = true; }), std::logic_error);
  EXPECT_FALSE(was_submitted);
}

TEST(CpuBackend, EventsMeasureTheTimeBetweenThem) {
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto stream = backend->make_stream();
  const auto start = backend->make_event();
  const auto stop = backend->make_event();
  start->record(*stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stop->record(*stream);
  EXPECT_GE(stop->milliseconds_since(*start), 20.0);
  EXPECT_LT(stop->milliseconds_since(*start), 20000.0);
  EXPECT_LE(start->milliseconds_since(*stop), -20.0);
}

TEST(CpuBackend, TellsWhatTheMachineIs) {
  const DeviceProperties properties = make_backend(DeviceKind::kCpu)->properties();
  EXPECT_FALSE(properties.name.empty());
  EXPECT_EQ(properties.target.device, DeviceKind::kCpu);
  EXPECT_GT(properties.available_bytes, 0U);
  EXPECT_GE(properties.memory_bytes, properties.available_bytes);
}

TEST(CpuBackend, ThreadsAreLimitedByRequestAndAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(make_backend(DeviceKind::kCpu)->properties().target.threads, CPU_COUNT(&before));
  EXPECT_EQ(make_backend(DeviceKind::kCpu, 1)->properties().target.threads, 1);
  EXPECT_EQ(omp_get_max_threads(), 1);
  EXPECT_EQ(make_backend(DeviceKind::kCpu, 100000)->properties().target.threads, CPU_COUNT(&before));
  EXPECT_EQ(omp_get_max_threads(), CPU_COUNT(&before));

  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int threads = make_backend(DeviceKind::kCpu)->properties().target.threads;
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(threads, 1);

  EXPECT_THROW((void)make_backend(DeviceKind::kCpu, -1), Error);
}

TEST(CpuInfo, IsaAgreesWithTheKernelsFlags) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string flags = " " + find_colon_value(text, "flags") + " ";
  const auto has = [&](const std::string& flag) { return flags.find(" " + flag + " ") != std::string::npos; };
  const CpuIsa isa = detect_cpu_isa();
  EXPECT_EQ(isa >= CpuIsa::kAvx2, has("avx2") && has("fma") && has("f16c"));
  EXPECT_EQ(isa >= CpuIsa::kAvx512,
            has("avx512f") && has("avx512cd") && has("avx512bw") && has("avx512dq") && has("avx512vl"));
  EXPECT_EQ(isa >= CpuIsa::kAvx512Vnni, has("avx512f") && has("avx512_vnni"));
  EXPECT_EQ(isa >= CpuIsa::kAvx512Bf16, has("avx512f") && has("avx512_bf16"));
  if (isa == CpuIsa::kAmx) {
    EXPECT_TRUE(has("amx_tile") && has("amx_bf16"));
  }
}

TEST(CpuInfo, FindsColonValues) {
  constexpr const char* kText = "model\t\t: 17\nmodel name\t: AMD EPYC 9R14 \nempty\t:\n";
  EXPECT_EQ(find_colon_value(kText, "model"), "17");
  EXPECT_EQ(find_colon_value(kText, "model name"), "AMD EPYC 9R14");
  EXPECT_EQ(find_colon_value(kText, "empty"), "");
  EXPECT_EQ(find_colon_value(kText, "flags"), "");
}

TEST(MakeBackend, WhereThereIsNoGpuSaysWhy) {
  try {
    (void)make_backend(DeviceKind::kCuda);
    GTEST_SKIP() << "this machine has a GPU";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("device cuda was asked for, but "), 0U) << error.what();
    EXPECT_EQ(error.code(), ExitCode::kError);
  }
}

TEST(CpuBackend, LargeCopiesAreWhole) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 2);
  const std::unique_ptr<Stream> stream = backend->make_stream();
  const std::size_t bytes = (std::size_t{3} << 20) + 13;  // enough for two threads, and not in even shares
  const Buffer from = backend->allocate(bytes, MemoryCategory::kWorkspace);
  const Buffer to = backend->allocate(bytes + 1, MemoryCategory::kWorkspace);
  for (std::size_t i = 0; i < bytes; ++i)
    *from.at(i).address<std::byte>() = static_cast<std::byte>(i * 2654435761U >> 16);
  *to.at(bytes).address<std::byte>() = std::byte{0x5A};
  backend->copy_on_device(*stream, to.at(), from.at(), bytes);
  EXPECT_EQ(std::memcmp(to.at().address(), from.at().address(), bytes), 0);
  EXPECT_EQ(*to.at(bytes).address<std::byte>(), std::byte{0x5A});
}

}  // namespace
}  // namespace headroom
