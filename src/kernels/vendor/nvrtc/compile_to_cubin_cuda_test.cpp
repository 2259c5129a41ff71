#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/test_util.hpp"
#include "kernels/vendor/nvrtc/compile_to_cubin.hpp"

namespace headroom::nvrtc {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSource = R"(
template <typename T> T twice(T x) { return x + x; }
extern "C" __global__ void kernel(float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if constexpr (sizeof(float) == 4) if (i < n) y[i] = twice(y[i]);
}
)";

/// Skipped, with the reason, without NVRTC. No GPU is needed.
class Compile : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = obstacle(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(Compile, MakesMachineCodeForTheArchitecture) {
  const std::string hopper = compile_to_cubin(kSource, "sm_90");
  EXPECT_EQ(hopper.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_THAT(hopper, HasSubstr(".text.kernel"));
  EXPECT_EQ(compile_to_cubin(kSource, "sm_90"), hopper);
  EXPECT_NE(compile_to_cubin(kSource, "sm_80"), hopper);
}

TEST_F(Compile, GivesTheFirstLinesOfTheLog) {
  const auto error = [](const std::string& source, const std::string& architecture = "sm_90") {
    return error_of([&] { static_cast<void>(compile_to_cubin(source, architecture)); });
  };
  EXPECT_THAT(
      error("extern \"C\" __global__ void kernel() { missing(); }"),
      AllOf(HasSubstr("sm_90"), HasSubstr("kernel.cu(1): error"), HasSubstr("\"missing\""), Not(HasSubstr(" | ..."))));
  std::string many;
  for (int i = 0; i < 50; ++i) many += "int x" + std::to_string(i) + " = missing" + std::to_string(i) + ";\n";
  EXPECT_THAT(error(many), AllOf(HasSubstr("missing0"), Not(HasSubstr("missing30")), HasSubstr(" | ...")));
  EXPECT_THAT(error(kSource, "sm_1"), HasSubstr("sm_1"));
}

TEST_F(Compile, TakesSeveralThreads) {
  std::string first, second;
  {
    std::jthread one([&] { first = compile_to_cubin(kSource, "sm_90"); });
    std::jthread two([&] { second = compile_to_cubin(kSource, "sm_90"); });
  }
  EXPECT_EQ(first, second);
}

TEST_F(Compile, SaysWhichGpusItKnows) {
  EXPECT_EQ(obstacle(90), "");
  EXPECT_THAT(obstacle(10), AllOf(HasSubstr("NVRTC "), HasSubstr("sm_90"), HasSubstr("not for sm_10")));
}

TEST_F(Compile, IsDescribedByAllThatItDependsOn) {
  const std::string described = describe_compilation(kSource, "sm_90");
  EXPECT_THAT(described, AllOf(HasSubstr("NVRTC "), HasSubstr("=sm_90 "), HasSubstr(kSource)));
  EXPECT_NE(describe_compilation(kSource, "sm_80"), described);
}

}  // namespace
}  // namespace headroom::nvrtc
