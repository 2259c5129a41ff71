#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "kernels/vendor/nvrtc/compile_to_cubin.hpp"
#include "kernels/vendor/nvrtc/compiler_threads.hpp"
#include "testing/own_cache.hpp"

namespace headroom::nvrtc {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

/// A kernel that adds `summand` to each of `n` words, after all earlier kernels.
std::string source_adding(int summand) {
  return fmt::format(R"(
extern "C" __global__ void kernel(int* y, int n) {{
  if constexpr (__CUDA_ARCH__ >= 900) asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  if (i < n) y[i] += {};
}}
)",
                     summand);
}

/// Needs NVRTC and no GPU: nothing is loaded.
class CompilerWithoutGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = obstacle(kHopper); !reason.empty()) GTEST_SKIP() << reason;
  }
  [[nodiscard]] static std::string error_of_waiting(const PendingKernel& kernel) {
    return error_of([&] { kernel.wait(); });
  }

  static constexpr int kHopper = 90;
  cuda::OwnCache cache_;
};

TEST_F(CompilerWithoutGpu, CompilesEachSourceOnce) {
  Compiler compiler(kHopper);
  std::vector<std::shared_ptr<const PendingKernel>> kernels;
  for (int i = 0; i < 20; ++i) kernels.push_back(compiler.begin(source_adding(i)));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(compiler.begin(source_adding(i)), kernels[static_cast<std::size_t>(i)]);
  for (const auto& kernel : kernels) kernel->wait();
  EXPECT_EQ(compiler.compiled(), 20U);
  EXPECT_EQ(compiler.from_disk(), 0U);
  EXPECT_GT(compiler.compile_seconds(), 0);
}

TEST_F(CompilerWithoutGpu, TakesOrdersFromSeveralThreads) {
  Compiler compiler(kHopper);
  const auto order = [&] {
    for (int i = 0; i < 10; ++i) compiler.begin(source_adding(i))->wait();
  };
  { std::jthread one(order), two(order); }
  EXPECT_EQ(compiler.compiled(), 10U);
}

TEST_F(CompilerWithoutGpu, FindsOnTheDiskWhatWasCompiledBefore) {
  for (const std::size_t round : {0U, 1U}) {
    Compiler compiler(kHopper);
    for (int i = 0; i < 5; ++i) compiler.begin(source_adding(i))->wait();
    EXPECT_EQ(compiler.compiled(), round == 0 ? 5U : 0U);
    EXPECT_EQ(compiler.from_disk(), round == 0 ? 0U : 5U);
  }
  Compiler ampere(80);
  ampere.begin(source_adding(0))->wait();
  EXPECT_EQ(ampere.compiled(), 1U);
}

TEST_F(CompilerWithoutGpu, CompilesAgainWhatIsBrokenOnTheDisk) {
  const auto compiled = [] {
    Compiler compiler(kHopper);
    compiler.begin(source_adding(1))->wait();
    return compiler.compiled();
  };
  EXPECT_EQ(compiled(), 1U);
  const CubinCache cache(cache_.folder() / "headroom/kernels");
  const auto file = cache.file_of(describe_compilation(source_adding(1), "sm_90"));
  ASSERT_TRUE(std::filesystem::exists(file));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_EQ(compiled(), 1U);
  EXPECT_EQ(compiled(), 0U);
}

TEST_F(CompilerWithoutGpu, ThrowsWhatNvrtcSays) {
  Compiler compiler(kHopper);
  const auto broken = compiler.begin("extern \"C\" __global__ void kernel() { missing(); }");
  for (int i = 0; i < 2; ++i) EXPECT_THAT(error_of_waiting(*broken), AllOf(HasSubstr("NVRTC"), HasSubstr("missing")));
  EXPECT_EQ(error_of_waiting(*compiler.begin(source_adding(1))), "(no error)");
  EXPECT_EQ(compiler.compiled(), 1U);
  EXPECT_THAT(error_of([] { const Compiler for_old_gpu(10); }), HasSubstr("not for sm_10"));
}

TEST_F(CompilerWithoutGpu, LeavesNothingHalfDoneWhenItIsClosed) {
  std::vector<std::shared_ptr<const PendingKernel>> kernels;
  {
    Compiler compiler(kHopper);
    for (int i = 0; i < 40; ++i) kernels.push_back(compiler.begin(source_adding(i)));
  }
  for (const auto& kernel : kernels)  // there, or refused in words
    EXPECT_THAT(error_of_waiting(*kernel), AnyOf("(no error)", HasSubstr("closed")));
}

TEST_F(CompilerWithoutGpu, WorksWithoutAPlaceToKeepThem) {
  write_file_atomically(cache_.folder() / "headroom", std::string_view("not a folder"));
  Compiler compiler(kHopper);
  compiler.begin(source_adding(7))->wait();
  EXPECT_EQ(compiler.compiled(), 1U);
}

class CompilerTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string reason = obstacle(); !reason.empty()) GTEST_SKIP() << reason;
    stream_ = backend().make_stream();
    words_ = backend().allocate(kWords * sizeof(int), MemoryCategory::kActivations);
    write(std::vector<int>(kWords, 0));
  }

  void write(const std::vector<int>& values) {
    backend().copy_from_host(*stream_, words_.at(), values.data(), kWords * sizeof(int));
  }
  [[nodiscard]] std::vector<int> read() {
    std::vector<int> values(kWords);
    backend().copy_to_host(*stream_, values.data(), words_.at(), kWords * sizeof(int));
    stream_->synchronize();
    return values;
  }
  void launch(const LoadedKernel& kernel, unsigned threads_x = 64, unsigned threads_y = 2) {
    void* address = words_.at().address();
    int count = kWords - 1;  // the last stays
    const std::array<void*, 2> arguments = {&address, &count};
    const unsigned threads = threads_x * threads_y;
    kernel.launch(stream_->native_handle(), (kWords + threads - 1) / threads, threads_x, threads_y, arguments);
  }
  /// The expected results once `value` was added.
  [[nodiscard]] static std::vector<int> all_but_last(int value) {
    std::vector<int> values(kWords, value);
    values.back() = 0;
    return values;
  }

  static constexpr int kWords = 1000;
  cuda::OwnCache cache_;
  std::unique_ptr<Stream> stream_;
  Buffer words_;
};

TEST_F(CompilerTest, CompilesAndLaunches) {
  Compiler compiler(backend());
  const LoadedKernel& kernel = compiler.begin(source_adding(3))->get();
  EXPECT_GT(kernel.registers(), 0);
  EXPECT_EQ(kernel.spilled_bytes(), 0U);
  EXPECT_EQ(kernel.uses_dependent_launch(), backend().properties().target.compute_capability >= 90);
  launch(kernel);
  launch(kernel, 32, 1);
  EXPECT_EQ(read(), all_but_last(6));
  EXPECT_EQ(compiler.compiled(), 1U);
  EXPECT_EQ(compiler.from_disk(), 0U);
  EXPECT_GT(compiler.compile_seconds(), 0);
}

TEST_F(CompilerTest, SharesTheKernelOfEqualSources) {
  Compiler compiler(backend());
  const auto one = compiler.begin(source_adding(1));
  const auto other = compiler.begin(source_adding(2));
  EXPECT_EQ(compiler.begin(source_adding(1)), one);
  EXPECT_NE(one, other);
  const LoadedKernel* from_thread = nullptr;
  std::jthread([&] {
    backend().make_current();
    from_thread = &one->get();
  }).join();
  EXPECT_EQ(&one->get(), from_thread);
  EXPECT_NE(&other->get(), &one->get());
  EXPECT_EQ(compiler.compiled(), 2U);
}

TEST_F(CompilerTest, CompilesManyAtOnce) {
  Compiler compiler(backend());
  std::vector<std::shared_ptr<const PendingKernel>> kernels;
  for (int i = 1; i <= 20; ++i) kernels.push_back(compiler.begin(source_adding(i)));
  for (const auto& kernel : kernels) launch(kernel->get());
  EXPECT_EQ(read(), all_but_last(210));
  EXPECT_EQ(compiler.compiled(), 20U);
}

TEST_F(CompilerTest, ThrowsWhatTheCompilerSays) {
  Compiler compiler(backend());
  const auto broken = compiler.begin("extern \"C\" __global__ void kernel() { missing(); }");
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_of([&] { static_cast<void>(broken->get()); }), AllOf(HasSubstr("NVRTC"), HasSubstr("missing")));
  const auto unnamed = compiler.begin("extern \"C\" __global__ void another() {}");
  EXPECT_THAT(error_of([&] { static_cast<void>(unnamed->get()); }), HasSubstr("CUDA failed"));
  launch(compiler.begin(source_adding(1))->get());  // which neither stops
  EXPECT_EQ(read(), all_but_last(1));
}

TEST_F(CompilerTest, ThrowsWhereALaunchIsRefused) {
  Compiler compiler(backend());
  const LoadedKernel& kernel = compiler.begin(source_adding(1))->get();
  EXPECT_THAT(error_of([&] { launch(kernel, 1024, 2); }), HasSubstr("CUDA failed"));
  launch(kernel);
  EXPECT_EQ(read(), all_but_last(1));
}

TEST_F(CompilerTest, FindsOnTheDiskWhatWasCompiledBefore) {
  for (const int round : {0, 1}) {
    Compiler compiler(backend());
    launch(compiler.begin(source_adding(5))->get());
    EXPECT_EQ(compiler.compiled(), round == 0 ? 1U : 0U);
    EXPECT_EQ(compiler.from_disk(), round == 0 ? 0U : 1U);
  }
  EXPECT_EQ(read(), all_but_last(10));
}

TEST_F(CompilerTest, IsRecordedAndReplayed) {
  Compiler compiler(backend());
  const LoadedKernel& kernel = compiler.begin(source_adding(1))->get();  // not launched before
  const auto recording = backend().record(*stream_, [&] { launch(kernel); });
  EXPECT_EQ(read(), all_but_last(0));
  for (int i = 0; i < 3; ++i) recording->replay(*stream_);
  EXPECT_EQ(read(), all_but_last(3));
}

TEST_F(CompilerTest, KernelsOutliveTheCompiler) {
  std::shared_ptr<const PendingKernel> kernel;
  {
    Compiler compiler(backend());
    kernel = compiler.begin(source_adding(4));
    static_cast<void>(kernel->get());
  }
  launch(kernel->get());
  EXPECT_EQ(read(), all_but_last(4));
}

TEST_F(CompilerTest, IsOneForADevice) { EXPECT_EQ(backend().context<Compiler>(), backend().context<Compiler>()); }

}  // namespace
}  // namespace headroom::nvrtc
