#include <set>
#include <string>
#include <vector>

#include "kernels/convolution/convolution.hpp"
#include "kernels/convolution/narrow.hpp"
#include "kernels/convolution/way_kernel.hpp"
#include "kernels/convolution_cases.hpp"
#include "kernels/cuda/gpu_check.hpp"

namespace headroom::convolutions {
namespace {

using testing::HasSubstr;

constexpr DType kNarrowDTypes[] = {DType::kBF16, DType::kF16};
constexpr Target kHopper{.device = DeviceKind::kCuda, .compute_capability = 90, .multiprocessors = 132};

/// Rows shorter and longer than a product, several images, and so many rows that a block makes more of them, one below the other, than
/// shared memory holds.
std::vector<ConvolutionCase> narrow_cases() {
  std::vector<ConvolutionCase> cases;
  for (const std::int64_t stride : {1, 2})
    for (const Shape& x : {Shape{1, 64, 7, 6}, Shape{2, 64, 5, 130}, Shape{1, 64, 1, 2}, Shape{2, 64, 700 * stride, 2}})
      cases.push_back({x, {64, 64, 3, 3}, Builder::evenly(stride, 1)});
  cases.push_back({{1, 64, 1, 1}, {64, 64, 3, 3}, Builder::evenly(1, 1)});
  return cases;
}

std::vector<ConvolutionCase> doubled_cases() {
  std::vector<ConvolutionCase> cases;
  for (const Shape& x : {Shape{1, 64, 1, 1}, Shape{2, 64, 3, 33}, Shape{1, 64, 2, 129}, Shape{2, 64, 200, 1}})
    cases.push_back({x, {64, 64, 4, 4}, Builder::evenly(2, 1)});
  return cases;
}

class NarrowConvolution : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && target().compute_capability != 90) GTEST_SKIP() << "the kernels are for Hopper";
  }

  /// By every way.
  void expect_agrees(const OpSpec& spec) {
    const std::vector<Way> ways = make_narrow_ways(problem_of(spec), target());
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const WayKernel<why_not_narrow> kernel(
          spec.op, [&](const Problem& problem, const Target& on) { return make_narrow_ways(problem, on).at(i); });
      const Comparison result = compare(kernel, spec, 1, default_tolerance(spec.outputs[0].dtype));
      EXPECT_TRUE(result.passed) << ways[i].name << ": " << result.message;
    }
  }
};

TEST_F(NarrowConvolution, AgreesByEveryWay) {
  int cases = 0;
  for (const ConvolutionCase& c : narrow_cases()) {
    const DType dtype = kNarrowDTypes[++cases % 2];
    SCOPED_TRACE(c.text(dtype, Layout::kChannelsLast));
    expect_agrees(c.conv2d(dtype, Layout::kChannelsLast, {.bias = dtype, .has_residual = true, .activation = "relu"}));
  }
}

TEST_F(NarrowConvolution, AddsBiasAndResidualAndThenActivates) {
  for (const DType dtype : kNarrowDTypes)
    for (const ConvolutionEnd& end : convolution_ends(dtype))
      for (const bool is_weight : {false, true}) {
        const OpSpec spec = narrow_cases()[0].conv2d(dtype, Layout::kChannelsLast, end, is_weight);
        SCOPED_TRACE(end.text());
        if (!why_not_narrow(problem_of(spec), target())) expect_agrees(spec);
      }
}

TEST_F(NarrowConvolution, Doubles) {
  for (const ConvolutionCase& c : doubled_cases())
    for (const DType dtype : kNarrowDTypes) {
      const bool is_weight = dtype == DType::kBF16;
      const std::optional<DType> bias = is_weight ? std::optional(DType::kF32) : std::nullopt;
      SCOPED_TRACE(c.text(dtype, Layout::kChannelsLast));
      expect_agrees(c.conv_transpose2d(dtype, Layout::kChannelsLast, bias, is_weight));
    }
}

TEST_F(NarrowConvolution, GoesToAndFromFewChannels) {
  const std::vector<Shape> images = {{1, 1, 1, 1}, {1, 1, 7, 6}, {3, 1, 9, 130}, {1, 1, 400, 2}};  // [b, -, h, w]
  for (const auto& [read, made] :
       {std::pair{1, 64}, {2, 64}, {3, 64}, {4, 64}, {3, 192}, {4, 320}, {64, 1}, {64, 3}, {64, 4}, {64, 16}})
    for (const Shape& image : images)
      for (const DType dtype : kNarrowDTypes) {
        const ConvolutionCase c{{image[0], read, image[2], image[3]}, {made, read, 3, 3}, Builder::evenly(1, 1)};
        const ConvolutionEnd end =
            dtype == DType::kF16 ? ConvolutionEnd{} : ConvolutionEnd{.bias = DType::kF32, .activation = "relu"};
        SCOPED_TRACE(c.text(dtype, Layout::kChannelsLast));
        expect_agrees(c.conv2d(dtype, Layout::kChannelsLast, end));
      }
}

TEST_F(NarrowConvolution, IsChosenForSmallWorkUnmeasured) {
  const OpSpec spec = ConvolutionCase{{1, 4, 9, 9}, {64, 4, 3, 3}, Builder::evenly(1, 1)}.conv2d(
      DType::kF16, Layout::kChannelsLast, {});
  EXPECT_EQ(find_way(problem_of(spec), target()).name, "narrow, few channels");
}

TEST(NarrowWays, HaveNamesOfTheirOwn) {
  for (const ConvolutionCase& c : narrow_cases()) {
    std::set<std::string> names;
    const std::vector<Way> ways =
        make_narrow_ways(problem_of(c.conv2d(DType::kBF16, Layout::kChannelsLast, {})), kHopper);
    for (const Way& way : ways) EXPECT_TRUE(names.insert(way.name).second) << way.name;
    EXPECT_GE(names.size(), 2U);
  }
}

TEST(NarrowWays, PreferLongProductsForLargeImages) {
  const auto first = [](std::int64_t size) {
    const ConvolutionCase c{{1, 64, size, size}, {64, 64, 3, 3}, Builder::evenly(1, 1)};
    return make_narrow_ways(problem_of(c.conv2d(DType::kF16, Layout::kChannelsLast, {})), kHopper).front().name;
  };
  EXPECT_EQ(first(32), "narrow 32 pixels");
  EXPECT_EQ(first(512), "narrow 128 pixels");
}

TEST(NarrowSupport, SaysWhatItDoesNotTake) {
  const ConvolutionCase c{{1, 64, 16, 16}, {64, 64, 3, 3}, Builder::evenly(1, 1)};
  const auto why_not = [&](const ConvolutionCase& of, const ConvolutionEnd& end = {}, DType dtype = DType::kBF16,
                           Layout layout = Layout::kChannelsLast, const Target& target = kHopper) {
    const Support rejection = why_not_narrow(problem_of(of.conv2d(dtype, layout, end)), target);
    return rejection ? rejection->reason : "";
  };
  const auto with = [&](auto change) {
    ConvolutionCase changed = c;
    change(changed);
    return changed;
  };
  EXPECT_EQ(why_not(c), "");
  EXPECT_EQ(why_not(c, {.bias = DType::kF32, .has_residual = true, .activation = "silu"}), "");
  EXPECT_THAT(why_not(c, {}, DType::kF32), HasSubstr("bf16 or f16"));
  EXPECT_THAT(why_not(c, {}, DType::kBF16, Layout::kRowMajor), HasSubstr("channels-last"));
  EXPECT_THAT(why_not(c, {.activation = "gelu_erf"}), HasSubstr("relu"));
  EXPECT_THAT(why_not(c, {}, DType::kBF16, Layout::kChannelsLast, {.device = DeviceKind::kCuda}), HasSubstr("9.0"));
  EXPECT_THAT(why_not(with([](auto& of) { of.how.dilation = {2, 2}; })), HasSubstr("3x3 with padding 1"));
  EXPECT_THAT(why_not(with([](auto& of) { of.how.padding = {0, 0, 1, 1}; })), HasSubstr("3x3 with padding 1"));
  EXPECT_THAT(why_not(with([](auto& of) { of.weight = Shape{64, 64, 1, 1}; })), HasSubstr("3x3 with padding 1"));
  EXPECT_THAT(why_not(with([](auto& of) { of.weight = Shape{72, 64, 3, 3}; })), HasSubstr("64 channels to 64"));
  const ConvolutionCase halved = with([](auto& of) { of.how.stride = {2, 2}; });
  EXPECT_EQ(why_not(halved), "");
  EXPECT_THAT(why_not({{1, 64, 16, 15}, halved.weight, halved.how}), HasSubstr("even widths"));
  EXPECT_THAT(why_not({{1, 3, 16, 16}, {64, 3, 3, 3}, halved.how}), HasSubstr("stride 1"));
  EXPECT_EQ(why_not({{1, 3, 16, 16}, {64, 3, 3, 3}, c.how}), "");
  EXPECT_EQ(why_not({{1, 4, 16, 16}, {320, 4, 3, 3}, c.how}), "");
  EXPECT_THAT(why_not({{1, 4, 16, 16}, {96, 4, 3, 3}, c.how}), HasSubstr("multiple of 64"));
  EXPECT_THAT(why_not({{1, 3, 16, 16}, {64, 3, 3, 3}, c.how}, {.bias = DType::kF32, .has_residual = true}),
              HasSubstr("no residual"));
  EXPECT_THAT(why_not({{1, 8, 16, 16}, {64, 8, 3, 3}, c.how}), HasSubstr("at most 4"));
}

}  // namespace
}  // namespace headroom::convolutions
