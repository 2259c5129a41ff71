#include <optional>
#include <string>
#include <vector>

#include "kernels/vendor/cudnn/convolution.hpp"
#include "testing/convolution_cases.hpp"
#include "testing/gpu_check.hpp"

namespace headroom::cudnn {
namespace {

using convolutions::Algorithm;
using convolutions::Problem;

class CudnnConvolution : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    if (const std::optional<std::string> reason = why_not_installed()) GTEST_SKIP() << *reason;
  }
};

/// Plain, with the epilogue fused or in a kernel of Headroom, and in f32, where many engines are not faithful.
TEST_F(CudnnConvolution, FindsEachOfItsAlgorithmsByName) {
  const ConvolutionCase c{{1, 64, 32, 32}, {96, 64, 3, 3}, Builder::evenly(1, 1)};
  for (const OpSpec& spec :
       {c.conv2d(DType::kF16, Layout::kChannelsLast, {}),
        c.conv2d(DType::kF16, Layout::kChannelsLast, {.bias = DType::kF16, .has_residual = true, .activation = "silu"}),
        c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32})}) {
    const Problem problem = convolutions::problem_of(spec);
    const std::vector<Algorithm> algorithms = make_algorithms(problem, backend(), /*is_large=*/true);
    ASSERT_FALSE(algorithms.empty());
    for (const Algorithm& algorithm : algorithms) {
      const std::optional<Algorithm> found = find_algorithm(problem, backend(), algorithm.name);
      ASSERT_TRUE(found) << algorithm.name;
      EXPECT_EQ(found->name, algorithm.name);
      EXPECT_EQ(found->workspace_bytes, algorithm.workspace_bytes) << algorithm.name;
    }
  }
}

TEST_F(CudnnConvolution, FindsNothingByOtherNames) {
  const ConvolutionCase c{{1, 64, 32, 32}, {96, 64, 3, 3}, Builder::evenly(1, 1)};
  const Problem problem = convolutions::problem_of(c.conv2d(DType::kF16, Layout::kChannelsLast, {}));
  const std::string name = make_algorithms(problem, backend(), /*is_large=*/false).front().name;
  const std::string version = name.substr(0, name.find(" engine"));
  for (const std::string& other :
       {std::string("narrow 32 pixels"), version, version + " engine", version + " engine 1 (2=3",
        version + " engine 100000 ()", "cuDNN 1.2.3" + name.substr(version.size()), name + " and more"})
    EXPECT_FALSE(find_algorithm(problem, backend(), other)) << other;
}

}  // namespace
}  // namespace headroom::cudnn
