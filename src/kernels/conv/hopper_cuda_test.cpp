#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "ir/test_cases/convolution_cases.hpp"
#include "kernels/conv/algorithm_kernel.hpp"
#include "kernels/conv/convolution.hpp"
#include "kernels/conv/hopper.hpp"
#include "testing/gpu_check.hpp"

namespace headroom::convolutions {
namespace {

using testing::HasSubstr;

/// Whole tiles and parts of them, several images in a tile, channels that are no whole copies, strides, dilation,
/// one-sided padding.
std::vector<ConvolutionCase> hopper_cases() {
  return {{{1, 64, 16, 16}, {64, 64, 3, 3}, Builder::evenly(1, 1)},
          {{3, 128, 8, 8}, {80, 128, 3, 3}, Builder::evenly(1, 1)},
          {{2, 72, 13, 11}, {24, 72, 3, 3}, Builder::evenly(1, 1)},
          {{1, 200, 9, 17}, {136, 200, 1, 1}},
          {{1, 320, 33, 8}, {192, 320, 1, 1}},
          {{2, 64, 17, 15}, {88, 64, 3, 3}, Builder::evenly(2, 1)},
          {{1, 64, 16, 16}, {64, 64, 3, 3}, {.stride = {2, 2}, .padding = {0, 0, 1, 1}}},
          {{1, 16, 7, 10}, {8, 16, 3, 2}, {.stride = {1, 3}, .padding = {2, 0, 1, 3}}},
          {{1, 64, 16, 12}, {72, 64, 5, 3}, {.padding = {4, 1, 4, 1}, .dilation = {2, 1}}}};
}

/// Transposed convolutions that double height and width. They have whole and partial tiles, and phases whose first tap
/// is at the output's own pixel or before it.
std::vector<ConvolutionCase> doubling_cases() {
  return {{{1, 64, 16, 16}, {64, 64, 4, 4}, Builder::evenly(2, 1)},
          {{3, 72, 5, 11}, {72, 88, 4, 4}, Builder::evenly(2, 1)},
          {{2, 128, 8, 9}, {128, 24, 2, 2}, {.stride = {2, 2}}},
          {{1, 64, 9, 8}, {64, 80, 6, 2}, {.stride = {2, 2}, .padding = {2, 0, 2, 0}}}};
}

constexpr HopperTile kSomeTiles[] = {{1, 64, 3, 1}, {2, 96, 1, 3}, {4, 80, 4, 1}};

class HopperConvolution : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && target().compute_capability != 90) GTEST_SKIP() << "the kernel is for Hopper";
  }

  /// If the tile fits the case.
  void expect_agrees(const HopperTile& tile, const ConvolutionCase& c, DType dtype, const ConvolutionEnd& end,
                     bool is_weight = true) {
    SCOPED_TRACE(c.text(dtype, Layout::kChannelsLast) + " " + end.text());
    expect_agrees(tile, c.conv2d(dtype, Layout::kChannelsLast, end, is_weight));
  }
  /// If it fits the spec.
  void expect_agrees(const HopperTile& tile, const OpSpec& spec) {
    const std::vector<HopperTile> fitting = hopper_tiles(problem_of(spec));
    if (std::ranges::count(fitting, tile) == 0) return;
    const LibraryKernel kernel = algorithm_kernel(spec.op, why_not_hopper, [&](const Problem& problem, const Target&) {
      return make_hopper_algorithm(problem, tile);
    });
    const Comparison result = compare(kernel, spec, 1, default_tolerance(spec.outputs[0].dtype));
    EXPECT_TRUE(result.passed) << name_of(tile) << ": " << result.message;
  }
};

TEST_F(HopperConvolution, AgreesWithEveryTile) {
  const ConvolutionCase c = hopper_cases()[1];
  for (const HopperTile& tile :
       hopper_tiles(problem_of(c.conv2d(DType::kBF16, Layout::kChannelsLast, {.bias = DType::kBF16}))))
    if (tile.split == 1 || tile.split == 3)
      expect_agrees(tile, c, tile.split == 1 ? DType::kBF16 : DType::kF16, {.bias = DType::kF32});
}

TEST_F(HopperConvolution, AgreesForEveryShape) {
  for (const ConvolutionCase& c : hopper_cases())
    for (const DType dtype : {DType::kBF16, DType::kF16})
      for (const HopperTile& tile : kSomeTiles) expect_agrees(tile, c, dtype, {.bias = dtype});
}

TEST_F(HopperConvolution, AddsBiasAndResidualAndThenActivates) {
  for (const DType dtype : {DType::kBF16, DType::kF16})
    for (const ConvolutionEnd& end : convolution_ends(dtype))
      for (const HopperTile& tile : kSomeTiles)
        for (const bool is_weight : {false, true}) expect_agrees(tile, hopper_cases()[2], dtype, end, is_weight);
}

// With fewer and more units than the image itself, with channels that are no whole copies, and with every split.
TEST_F(HopperConvolution, AddsAShortcut) {
  int number = 0;
  for (const ConvolutionCase& c : hopper_cases())
    for (const HopperTile& tile : kSomeTiles) {
      const std::int64_t channels = std::array{8, 72, 200}[number % 3];
      const DType dtype = number++ % 2 == 0 ? DType::kF16 : DType::kBF16;
      SCOPED_TRACE(fmt::format("{}, shortcut {}", c.text(dtype, Layout::kChannelsLast), channels));
      expect_agrees(tile,
                    c.conv2d_shortcut(dtype, Layout::kChannelsLast, channels, Activation::kSilu, number % 4 != 0));
    }
  const ConvolutionCase small{{1, 128, 8, 8}, {24, 128, 3, 3}, Builder::evenly(1, 1)};
  const OpSpec spec = small.conv2d_shortcut(DType::kF16, Layout::kChannelsLast, 264, Activation::kNone);
  for (const HopperTile& tile : hopper_tiles(problem_of(spec)))
    if (tile.columns == 64) expect_agrees(tile, spec);
}

// Compared with other kernels: also from fewer channels than the convolution's, and for a kernel with a packed
// weight.
TEST_F(HopperConvolution, AddsAShortcutInTwo) {
  const LibraryKernel in_two = algorithm_kernel(Op::kConv2dShortcut, why_not_hopper, make_algorithm_in_two);
  for (const ConvolutionCase& c : {hopper_cases()[0], hopper_cases()[1]})
    for (const std::int64_t channels : {8, 200})
      for (const bool is_weight : {false, true}) {
        const Activation activation = channels == 8 ? Activation::kNone : Activation::kSilu;
        const OpSpec spec = c.conv2d_shortcut(DType::kF16, Layout::kChannelsLast, channels, activation, is_weight);
        const Comparison result = compare(in_two, spec, 1, default_tolerance(DType::kF16));
        EXPECT_TRUE(result.passed) << c.text(DType::kF16, Layout::kChannelsLast) << ": " << result.message;
      }
}

TEST_F(HopperConvolution, AgreesWhereItDoublesAnImage) {
  for (const ConvolutionCase& c : doubling_cases())
    for (const DType dtype : {DType::kBF16, DType::kF16})
      for (const HopperTile& tile : {HopperTile{1, 64, 3, 1}, {2, 96, 1, 1}, {4, 80, 2, 1}})
        for (const std::optional<DType> bias : {std::optional<DType>(), std::optional(dtype)})
          for (const bool is_weight : {false, true}) {
            const OpSpec spec = c.conv_transpose2d(dtype, Layout::kChannelsLast, bias, is_weight);
            SCOPED_TRACE(c.text(dtype, Layout::kChannelsLast) + (bias ? " bias" : "") + (is_weight ? " weight" : ""));
            EXPECT_FALSE(hopper_tiles(problem_of(spec)).empty());
            expect_agrees(tile, spec);
          }
}

TEST_F(HopperConvolution, IsFoundAgainByName) {
  const Problem problem =
      problem_of(hopper_cases()[0].conv2d(DType::kBF16, Layout::kChannelsLast, {.bias = DType::kBF16}));
  std::set<std::string> names;
  for (const Algorithm& algorithm : make_hopper_algorithms(problem)) {
    EXPECT_TRUE(names.insert(algorithm.name).second) << algorithm.name;
    EXPECT_TRUE(find_hopper_algorithm(problem, algorithm.name).has_value()) << algorithm.name;
  }
  EXPECT_FALSE(names.empty());
  EXPECT_FALSE(find_hopper_algorithm(problem, "hopper 1 pixels x 1 channels, a tap at once, split 1").has_value());
}

TEST(HopperSupport, SaysWhatItDoesNotTake) {
  const Target hopper{.device = DeviceKind::kCuda, .compute_capability = 90};
  const ConvolutionCase c{{1, 64, 16, 16}, {64, 64, 3, 3}, Builder::evenly(1, 1)};
  const auto why_not = [&](const ConvolutionCase& of, DType dtype, Layout layout, const Target& target) {
    const Support rejection = why_not_hopper(problem_of(of.conv2d(dtype, layout, {})), target);
    return rejection ? rejection->reason : "";
  };
  EXPECT_EQ(why_not(c, DType::kBF16, Layout::kChannelsLast, hopper), "");
  EXPECT_THAT(why_not(c, DType::kF32, Layout::kChannelsLast, hopper), HasSubstr("bf16 or f16"));
  EXPECT_THAT(why_not(c, DType::kBF16, Layout::kRowMajor, hopper), HasSubstr("channels-last"));
  EXPECT_THAT(why_not({{1, 4, 8, 8}, {64, 4, 3, 3}}, DType::kBF16, Layout::kChannelsLast, hopper), HasSubstr("packs"));
  EXPECT_THAT(why_not({{1, 64, 8, 8}, {64, 32, 3, 3}, {.groups = 2}}, DType::kBF16, Layout::kChannelsLast, hopper),
              HasSubstr("groups"));
  EXPECT_THAT(
      why_not_hopper(problem_of(c.conv2d_shortcut(DType::kBF16, Layout::kChannelsLast, 12, Activation::kNone)), hopper)
          ->reason,
      HasSubstr("packs"));
  EXPECT_THAT(why_not(c, DType::kBF16, Layout::kChannelsLast, {.device = DeviceKind::kCuda, .compute_capability = 80}),
              HasSubstr("9.0"));
  const auto why_not_transposed = [&](const ConvolutionCase& of) {
    const Support rejection =
        why_not_hopper(problem_of(of.conv_transpose2d(DType::kBF16, Layout::kChannelsLast, {})), hopper);
    return rejection ? rejection->reason : "";
  };
  for (const ConvolutionCase& doubling : doubling_cases()) EXPECT_EQ(why_not_transposed(doubling), "");
  EXPECT_THAT(why_not_transposed({{1, 64, 8, 8}, {64, 64, 3, 3}, Builder::evenly(1, 1)}), HasSubstr("double"));
  EXPECT_THAT(why_not_transposed({{1, 64, 8, 8}, {64, 64, 4, 4}, {.stride = {2, 2}, .padding = {1, 1, 1, 2}}}),
              HasSubstr("double"));
}

}  // namespace
}  // namespace headroom::convolutions
