#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "ir/test_cases/convolution_cases.hpp"
#include "kernels/vendor/onednn/engine.hpp"
#include "testing/onednn_target.hpp"

namespace headroom {
namespace {

using onednn::expect_agrees;
using onednn::prepare_dense;
using onednn::test_target;

// Small filters and 1x1 run as a gemm on row-major images, larger ones convert: both are here.
TEST(OnednnConv2d, AgreesForEveryShapeLayoutAndDtype) {
  for (const ConvolutionCase& c : convolution_cases())
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
        for (const bool is_weight : {false, true}) {
          SCOPED_TRACE(c.text(dtype, layout) + (is_weight ? " weight" : ""));
          expect_agrees("onednn.conv2d", c.conv2d(dtype, layout, {.bias = dtype}, is_weight));
        }
}

TEST(OnednnConv2d, AddsBiasAndResidualAndThenActivates) {
  for (const ConvolutionCase& c : convolution_cases())
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
        for (const ConvolutionEnd& end : convolution_ends(dtype)) {
          SCOPED_TRACE(c.text(dtype, layout) + " " + end.text());
          expect_agrees("onednn.conv2d", c.conv2d(dtype, layout, end));
        }
}

TEST(OnednnConv2d, AddsAndActivatesWhereAWindowSeesPaddingAlone) {
  const std::vector<ConvolutionCase> cases = {
      {{1, 1, 1, 3}, {2, 1, 1, 1}, {.stride = {1, 2}, .padding = {0, 0, 2, 0}, .dilation = {2, 1}}},
      {{2, 1, 4, 3}, {1, 1, 1, 2}, {.stride = {2, 2}, .padding = {1, 2, 0, 0}}},
      {{1, 16, 5, 6}, {32, 16, 3, 3}, {.padding = {3, 1, 4, 5}}},
      {{3, 9, 5, 3}, {1, 9, 1, 1}, {.stride = {2, 2}, .padding = {0, 1, 0, 0}, .dilation = {1, 2}}},
      {{4, 9, 4, 3}, {1, 9, 2, 3}, {.stride = {2, 2}, .padding = {0, 2, 2, 0}}}};
  for (const ConvolutionCase& c : cases)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
        for (const Activation activation : {Activation::kNone, Activation::kSilu, Activation::kGeluTanh})
          for (const bool has_residual : {false, true}) {
            const ConvolutionEnd end{.bias = dtype, .has_residual = has_residual, .activation = activation};
            SCOPED_TRACE(c.text(dtype, layout) + " " + end.text());
            expect_agrees("onednn.conv2d", c.conv2d(dtype, layout, end));
          }
}

TEST(OnednnConv2d, MayBeWrittenOverItsResidualAlone) {
  const Kernel& kernel = kernel_named("onednn.conv2d");
  const ConvolutionCase c{.x = {2, 4, 6, 6}, .weight = {4, 4, 3, 3}, .how = Builder::evenly(1, 1)};
  const OpSpec spec = c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32, .has_residual = true});
  EXPECT_TRUE(kernel.may_overwrite(spec, 3, 0));
  EXPECT_FALSE(kernel.may_overwrite(spec, 0, 0));
  const OpSpec bare = c.conv2d(DType::kF32, Layout::kRowMajor, {.has_residual = true});
  EXPECT_TRUE(kernel.may_overwrite(bare, 2, 0)) << "which has no bias";
  const OpSpec plain = c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32});
  for (int input = 0; input < 3; ++input) EXPECT_FALSE(kernel.may_overwrite(plain, input, 0));
}

TEST(OnednnConv2d, NamesTheEpiloguesThatItLacks) {
  const ConvolutionCase c{.x = {2, 4, 6, 6}, .weight = {4, 4, 3, 3}, .how = Builder::evenly(1, 1)};
  for (const char* const epilogue : {"add(e0, silu(sum))", "mul(sum, e0)"}) {
    OpSpec spec = c.conv2d(DType::kF32, Layout::kRowMajor, {.has_residual = true});
    spec.attributes = spec.attributes.with(attr::kEpilogue, Epilogue::parse(epilogue));
    const Support rejection = kernel_named("onednn.conv2d").supports(spec, test_target());
    ASSERT_TRUE(rejection) << epilogue;
    EXPECT_EQ(rejection->reason,
              fmt::format("takes a residual and an activation after the sum, not the epilogue {}", epilogue));
  }
}

TEST(OnednnConv2d, PacksFoldedWeightsOnly) {
  const ConvolutionCase c{.x = {1, 64, 12, 12}, .weight = {48, 64, 3, 3}, .how = Builder::evenly(1, 1)};
  const auto folded =
      prepare_dense("onednn.conv2d", c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32}), test_target());
  ASSERT_EQ(folded->packed_weights().size(), 1U);
  EXPECT_EQ(folded->packed_weights()[0].input, 1);
  EXPECT_GE(folded->packed_weights()[0].bytes, 48U * 64 * 9 * 4);
  const auto other = prepare_dense("onednn.conv2d",
                                   c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32}, /*is_weight=*/false),
                                   test_target());
  EXPECT_TRUE(other->packed_weights().empty());
}

TEST(OnednnConv2d, CountsItsWork) {
  const ConvolutionCase c{.x = {2, 3, 8, 8}, .weight = {5, 3, 3, 3}, .how = Builder::evenly(1, 1)};
  const Cost cost = kernel_named("onednn.conv2d").cost(c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32}));
  EXPECT_EQ(cost.flops, 2.0 * 5 * 64 * (2 * 27 + 1));
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 3 * 64 + 5 * 27 + 5 + 2 * 5 * 64));
  EXPECT_EQ(cost.unit, ComputeUnit::kMatrix);
}

TEST(OnednnConv2d, RejectsWithReasons) {
  const Kernel& kernel = kernel_named("onednn.conv2d");
  const ConvolutionCase c{.x = {2, 1, 28, 28}, .weight = {8, 1, 3, 3}};
  const Support rejection =
      kernel.supports(c.conv2d(DType::kF16, Layout::kRowMajor, {.bias = DType::kF16}), test_target());
  ASSERT_TRUE(rejection.has_value());
  EXPECT_EQ(rejection->reason, "takes f32 or bf16, not f16");
  const ConvolutionCase none{.x = {0, 1, 4, 4}, .weight = {2, 1, 3, 3}};
  const Support empty =
      kernel.supports(none.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32}), test_target());
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->reason, "an operand has no elements");
}

/// Choosing a kernel for such images divided by zero in oneDNN, or took minutes.
TEST(OnednnConv2d, RejectsImagesOfMorePixelsThanOnednnCounts) {
  struct Size {
    std::int64_t channels, height, width;
  };
  const DeviceTarget target = test_target();
  for (const Size& size :
       {Size{256, 16'384, 16'384}, Size{3, 16'384, 32'768}, Size{4, 65'536, 8192}, Size{3, 1, 1LL << 27}}) {
    const ConvolutionCase c{.x = {1, size.channels, size.height, size.width}, .weight = {128, size.channels, 1, 1}};
    const Support rejection =
        kernel_named("onednn.conv2d").supports(c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32}), target);
    ASSERT_TRUE(rejection.has_value()) << size.height;
    EXPECT_NE(rejection->reason.find("images of at most 134217727 pixels"), std::string::npos) << rejection->reason;
    const ConvolutionCase t{.x = c.x, .weight = {size.channels, 8, 1, 1}};
    const Support transposed = kernel_named("onednn.conv_transpose2d")
                                   .supports(t.conv_transpose2d(DType::kF32, Layout::kRowMajor, std::nullopt), target);
    ASSERT_TRUE(transposed.has_value()) << size.height;
    EXPECT_NE(transposed->reason.find("images of at most"), std::string::npos) << transposed->reason;
  }
}

TEST(OnednnConvTranspose2d, AgreesForEveryShapeLayoutAndDtype) {
  for (const ConvolutionCase& c : transposed_cases())
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
        for (const bool is_weight : {false, true})
          for (const std::optional<DType> bias : {std::optional<DType>(), std::optional(DType::kF32)}) {
            SCOPED_TRACE(c.text(dtype, layout) + (is_weight ? " weight" : "") + (bias ? " bias" : ""));
            expect_agrees("onednn.conv_transpose2d", c.conv_transpose2d(dtype, layout, bias, is_weight));
          }
}

/// A convolution's gradient reads the convolution's weight with both kinds of channels exchanged. Where each is one
/// block, oneDNN (2.6.3 with AVX2) wants the same blocks of both, and one packed copy must not serve for the other.
TEST(OnednnConvTranspose2d, SharesNoPackedWeightWithTheConvolution) {
  using Tag = dnnl::memory::format_tag;
  const auto described = [](Tag tag) { return dnnl::memory::desc({8, 8, 3, 3}, dnnl::memory::data_type::f32, tag); };
  KernelPlan forward, backward;
  onednn::pack_weight(forward, 1, described(Tag::abcd), described(Tag::ABcd8b8a));
  onednn::pack_weight(backward, 1, described(Tag::bacd), described(Tag::ABcd8b8a));
  ASSERT_EQ(forward.packed.size(), 1U);
  ASSERT_EQ(backward.packed.size(), 1U);
  EXPECT_NE(forward.packed[0].layout, backward.packed[0].layout);
}

}  // namespace
}  // namespace headroom
