#include <fmt/format.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ir/test_cases/convolution_cases.hpp"
#include "kernels/conv/algorithm_kernel.hpp"
#include "kernels/conv/convolution.hpp"
#include "kernels/conv/direct.hpp"
#include "kernels/conv/direct_form.hpp"
#include "testing/gpu_check.hpp"

namespace headroom::convolutions {
namespace {

using testing::HasSubstr;

constexpr DType kNarrowDTypes[] = {DType::kBF16, DType::kF16};
constexpr Target kHopper{.device = DeviceKind::kCuda, .compute_capability = 90, .multiprocessors = 132};

/// Rows shorter and longer than a multiply-add, several images, and enough rows that a block computes more
/// consecutive ones than shared memory holds.
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

/// Pixels, odd sizes, and rows as long as a tile of conv_up_to_16_in.cu or longer.
std::vector<Shape> several_images() {
  return {{1, 1, 1, 1}, {1, 1, 7, 6}, {2, 1, 3, 32}, {3, 1, 5, 70}};
}  // [b, -, h, w]
/// Pixels, whole tiles of conv_up_to_16_out.cu, and odd sizes.
std::vector<Shape> many_images() { return {{1, 1, 1, 1}, {2, 1, 4, 8}, {3, 1, 7, 6}, {1, 1, 9, 34}}; }  // [b, -, h, w]

/// Little work between numbers of channels, and the algorithm that takes it.
struct FewCase {
  std::int64_t read, made;
  const char* algorithm;

  [[nodiscard]] OpSpec spec() const {
    const ConvolutionCase c{{1, read, 64, 64}, {made, read, 3, 3}, Builder::evenly(1, 1)};
    return c.conv2d(DType::kF16, Layout::kChannelsLast, {});
  }
};
constexpr FewCase kFewCases[] = {{4, 64, "narrow, few channels"},          {64, 4, "narrow, few channels"},
                                 {5, 64, "narrow, several channels"},      {9, 192, "narrow, several channels"},
                                 {192, 3, "narrow, many to few channels"}, {320, 4, "narrow, many to few channels"}};

class NarrowConvolution : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && target().compute_capability != 90) GTEST_SKIP() << "the kernels are for Hopper";
  }

  /// By every algorithm.
  void expect_agrees(const OpSpec& spec) {
    const std::vector<Algorithm> algorithms = make_direct_algorithms(problem_of(spec), target());
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      const LibraryKernel kernel = algorithm_kernel(
          spec.op, why_not_narrow,
          [&](const Problem& problem, const Target& on) { return make_direct_algorithms(problem, on).at(i); });
      const Comparison result = compare(kernel, spec, 1, default_tolerance(spec.outputs[0].dtype));
      EXPECT_TRUE(result.passed) << algorithms[i].name << ": " << result.message;
    }
  }
  /// In another type and with another end from case to case, with a weight that is constant in two of three.
  void expect_agrees(const ConvolutionCase& c, int number) {
    const DType dtype = kNarrowDTypes[number % 2];
    const ConvolutionEnd ends[] = {{},
                                   {.bias = DType::kF32, .activation = Activation::kSilu},
                                   {.bias = dtype, .activation = Activation::kRelu},
                                   {.bias = dtype},
                                   {.bias = DType::kF32}};
    const ConvolutionEnd& end = ends[number % 5];
    SCOPED_TRACE(fmt::format("{} {}", c.text(dtype, Layout::kChannelsLast), end.text()));
    expect_agrees(c.conv2d(dtype, Layout::kChannelsLast, end, number % 3 != 0));
  }
};

TEST_F(NarrowConvolution, AgreesByEveryAlgorithm) {
  int cases = 0;
  for (const ConvolutionCase& c : narrow_cases()) {
    const DType dtype = kNarrowDTypes[++cases % 2];
    SCOPED_TRACE(c.text(dtype, Layout::kChannelsLast));
    expect_agrees(
        c.conv2d(dtype, Layout::kChannelsLast, {.bias = dtype, .has_residual = true, .activation = Activation::kRelu}));
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
        const ConvolutionEnd end = dtype == DType::kF16
                                       ? ConvolutionEnd{}
                                       : ConvolutionEnd{.bias = DType::kF32, .activation = Activation::kRelu};
        SCOPED_TRACE(c.text(dtype, Layout::kChannelsLast));
        expect_agrees(c.conv2d(dtype, Layout::kChannelsLast, end));
      }
}

TEST_F(NarrowConvolution, GoesFromSeveralChannels) {
  int cases = 0;
  for (std::int64_t read = kMostFewChannels + 1; read <= kMostSeveralChannels; ++read)
    for (const Shape& image : several_images()) {
      const std::int64_t made = std::vector<std::int64_t>{64, 192, 320}[static_cast<std::size_t>(++cases % 3)];
      expect_agrees({{image[0], read, image[2], image[3]}, {made, read, 3, 3}, Builder::evenly(1, 1)}, cases);
    }
}

TEST_F(NarrowConvolution, GoesFromManyChannelsToFew) {
  int cases = 0;
  for (const std::int64_t read : {32, 96, 128, 192, 320, 448, 1024})
    for (const std::int64_t made : {1, 3, 4, 5, 8, 16})
      for (const Shape& image : many_images())
        expect_agrees({{image[0], read, image[2], image[3]}, {made, read, 3, 3}, Builder::evenly(1, 1)}, ++cases);
}

TEST_F(NarrowConvolution, GoesOverMoreTilesThanBlocks) {
  int cases = 0;
  for (const auto& [read, made, image] : {std::tuple{9, 64, Shape{1, 1, 1100, 3}},
                                          {16, 128, Shape{2, 1, 300, 33}},
                                          {32, 4, Shape{1, 1, 1700, 9}},
                                          {192, 3, Shape{2, 1, 600, 9}},
                                          {320, 4, Shape{1, 1, 330, 17}},
                                          {512, 2, Shape{1, 1, 9, 500}}})
    expect_agrees({{image[0], read, image[2], image[3]}, {made, read, 3, 3}, Builder::evenly(1, 1)}, ++cases);
}

TEST_F(NarrowConvolution, IsChosenForSmallWorkUnmeasured) {
  for (const FewCase& c : kFewCases) EXPECT_EQ(find_algorithm(problem_of(c.spec()), target()).name, c.algorithm);
}

TEST(DirectAlgorithms, HaveNamesOfTheirOwn) {
  for (const ConvolutionCase& c : narrow_cases()) {
    std::set<std::string> names;
    const std::vector<Algorithm> algorithms =
        make_direct_algorithms(problem_of(c.conv2d(DType::kBF16, Layout::kChannelsLast, {})), kHopper);
    for (const Algorithm& algorithm : algorithms) EXPECT_TRUE(names.insert(algorithm.name).second) << algorithm.name;
    EXPECT_GE(names.size(), 2U);
  }
}

TEST(DirectAlgorithms, AreByTheNumbersOfChannels) {
  for (const FewCase& c : kFewCases) {
    const std::vector<Algorithm> algorithms = make_direct_algorithms(problem_of(c.spec()), kHopper);
    ASSERT_EQ(algorithms.size(), 1U);
    EXPECT_EQ(algorithms[0].name, c.algorithm) << c.read << " to " << c.made;
    EXPECT_FALSE(algorithms[0].packing);
  }
}

TEST(DirectAlgorithms, PreferWideTilesForLargeImages) {
  const auto first = [](std::int64_t size) {
    const ConvolutionCase c{{1, 64, size, size}, {64, 64, 3, 3}, Builder::evenly(1, 1)};
    return make_direct_algorithms(problem_of(c.conv2d(DType::kF16, Layout::kChannelsLast, {})), kHopper).front().name;
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
  EXPECT_EQ(why_not(c, {.bias = DType::kF32, .has_residual = true, .activation = Activation::kSilu}), "");
  EXPECT_THAT(why_not(c, {}, DType::kF32), HasSubstr("bf16 or f16"));
  EXPECT_THAT(why_not(c, {}, DType::kBF16, Layout::kRowMajor), HasSubstr("channels-last"));
  EXPECT_THAT(why_not(c, {.activation = Activation::kGeluErf}), HasSubstr("relu"));
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
  EXPECT_EQ(why_not({{1, 16, 16, 16}, {64, 16, 3, 3}, c.how}), "");
  EXPECT_THAT(why_not({{1, 17, 16, 16}, {64, 17, 3, 3}, c.how}), HasSubstr("from at most 16"));
  EXPECT_THAT(why_not({{1, 9, 16, 16}, {96, 9, 3, 3}, c.how}), HasSubstr("multiple of 64"));
  EXPECT_THAT(why_not({{1, 9, 16, 16}, {64, 9, 3, 3}, halved.how}), HasSubstr("stride 1"));
  for (const std::int64_t read : {32, 96, 320, 2048})
    EXPECT_EQ(why_not({{1, read, 16, 16}, {16, read, 3, 3}, c.how}), "") << read;
  EXPECT_THAT(why_not({{1, 320, 16, 16}, {17, 320, 3, 3}, c.how}), HasSubstr("to at most 16"));
  EXPECT_THAT(why_not({{1, 48, 16, 16}, {4, 48, 3, 3}, c.how}), HasSubstr("multiple of 32"));
  EXPECT_THAT(why_not({{1, 2080, 16, 16}, {4, 2080, 3, 3}, c.how}), HasSubstr("up to 2048"));
  EXPECT_THAT(why_not({{1, 320, 16, 16}, {4, 320, 3, 3}, c.how}, {.bias = DType::kF32, .has_residual = true}),
              HasSubstr("no residual"));
}

}  // namespace
}  // namespace headroom::convolutions
