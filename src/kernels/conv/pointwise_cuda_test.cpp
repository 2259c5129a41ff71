#include "ir/test_cases/convolution_cases.hpp"
#include "kernels/conv/pointwise.hpp"
#include "testing/gpu_check.hpp"

namespace headroom::convolutions {
namespace {

Problem problem_of_case(const ConvolutionCase& c, Layout layout = Layout::kChannelsLast) {
  return problem_of(c.conv2d(DType::kBF16, layout, {.bias = DType::kBF16}));
}

TEST(ConvolutionGemm, IsOneOfSinglePixelsAlone) {
  const ConvolutionCase pixels{{2, 64, 6, 6}, {128, 64, 1, 1}};
  EXPECT_TRUE(is_pointwise(problem_of_case(pixels)));
  EXPECT_FALSE(is_pointwise(problem_of_case(pixels, Layout::kRowMajor)));
  EXPECT_FALSE(is_pointwise(problem_of_case({{2, 64, 6, 6}, {128, 64, 3, 3}, Builder::evenly(1, 1)})));
  EXPECT_FALSE(is_pointwise(problem_of_case({{2, 64, 6, 6}, {128, 64, 1, 1}, {.stride = {1, 2}}})));
  EXPECT_FALSE(is_pointwise(problem_of_case({{2, 64, 6, 6}, {128, 64, 1, 1}, {.padding = {0, 0, 1, 0}}})));
  EXPECT_FALSE(is_pointwise(problem_of_case({{2, 64, 6, 6}, {128, 32, 1, 1}, {.groups = 2}})));
}

TEST(ConvolutionGemm, IsTheSameWhateverTheImageWas) {
  const Problem lines = in_lines(problem_of_case({{2, 64, 6, 6}, {128, 64, 1, 1}}));
  EXPECT_EQ(lines.x, (Shape{1, 64, 9, 8}));
  EXPECT_EQ(lines.y, (Shape{1, 128, 9, 8}));
  EXPECT_EQ(to_text(lines), to_text(in_lines(problem_of_case({{1, 64, 72, 1}, {128, 64, 1, 1}}))));
  EXPECT_EQ(in_lines(problem_of_case({{1, 64, 7, 11}, {128, 64, 1, 1}})).x, (Shape{1, 64, 77, 1}));
}

}  // namespace
}  // namespace headroom::convolutions
