#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "ir/activation.hpp"
#include "ir/convolution.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/convolution_cases.hpp"
#include "ir/test_cases/op_cases.hpp"

// Convolutions, NCHW, and transposed convolutions, in which image and result are swapped.

namespace headroom::ops {
namespace {

using Convolution = Builder::Convolution;

constexpr int kTop = 0, kLeft = 1, kBottom = 2, kRight = 3;

std::int64_t padding_along(const Convolution& how, int axis) {
  return axis == 0 ? how.padding[kTop] + how.padding[kBottom] : how.padding[kLeft] + how.padding[kRight];
}

/// The distance between the first and last taps of the weight, plus one; axis 0 is the height.
std::int64_t reach_of(const Convolution& how, const Shape& weight, int axis) {
  return how.dilation[static_cast<std::size_t>(axis)] * (weight[2 + axis] - 1) + 1;
}

Convolution checked_convolution(const TypeQuery& given) {
  const Convolution how = convolution_of(given.attributes);
  if (how.groups < 1 || std::ranges::min(how.stride) < 1 || std::ranges::min(how.dilation) < 1 ||
      std::ranges::min(how.padding) < 0)
    fail("{}: expected positive stride, dilation and groups, and no negative padding", name_of(given.op));
  return how;
}

/// Requirements on the operands of both convolutions; `channels` of the result follow from the weight.
void require_operands(const TypeQuery& given, std::int64_t channels, std::string_view form) {
  const TensorType& x = given.in[0];
  given.require(is_float(x.dtype) && given.in[1].dtype == x.dtype, form);
  given.require(given.in[1].layout == Layout::kRowMajor, "a row-major weight");
  if (own_operands(given.attributes, given.in).size() > 2)
    given.require(given.in[2].shape == Shape{channels} && is_vector_dtype(given.in[2].dtype, x.dtype),
                  "a bias for each channel of the result, in the dtype of x or f32");
}

/// The type of a convolution's sums.
std::vector<TensorType> sum_types(const TypeQuery& given) {
  constexpr std::string_view kForm =
      "x[b, c, h, w] and weight[o, c/groups, kh, kw] of one floating-point dtype, groups dividing c and o";
  const Convolution how = checked_convolution(given);
  const Shape& x = given.in[0].shape;
  const Shape& weight = given.in[1].shape;
  given.require(x.rank() == 4 && weight.rank() == 4 && weight[1] * how.groups == x[1] && weight[0] % how.groups == 0,
                kForm);
  require_operands(given, weight[0], kForm);
  Shape result{x[0], weight[0], 0, 0};
  for (const int axis : {0, 1}) {
    const std::int64_t room = x[2 + axis] + padding_along(how, axis) - reach_of(how, weight, axis);
    given.require(room >= 0, "a weight no larger than the padded image");
    result.set(2 + axis, room / how.stride[static_cast<std::size_t>(axis)] + 1);
  }
  return {{given.in[0].dtype, result, given.in[0].layout}};
}

std::vector<TensorType> conv2d_types(const TypeQuery& given) {
  const std::vector<TensorType> made = sum_types(given);
  require_image_epilogue(given, made[0]);
  return made;
}

std::vector<TensorType> conv2d_shortcut_types(const TypeQuery& given) {
  TensorType other = sum_types({given.op, given.attributes, given.in})[0];
  const TensorType result = other;
  const TensorType& shortcut = given.in[4];
  given.require(
      shortcut.shape.rank() == 4 && shortcut == TensorType{result.dtype, {result.shape[1], shortcut.shape[1], 1, 1}},
      "a row-major shortcut[o, d, 1, 1] in the dtype of x");
  other.shape.set(1, shortcut.shape[1]);
  given.require(given.in[3] == other, "other[b, d, oh, ow] in the dtype and layout of x");
  require_image_epilogue(given, result);
  return {result};
}

std::vector<TensorType> conv_transpose2d_types(const TypeQuery& given) {
  constexpr std::string_view kForm =
      "x[b, c, h, w] and weight[c, o/groups, kh, kw] of one floating-point dtype, groups dividing c";
  const Convolution how = checked_convolution(given);
  const std::vector<std::int64_t>& more = given.attributes[attr::kOutputPadding];
  const Shape& x = given.in[0].shape;
  const Shape& weight = given.in[1].shape;
  given.require(x.rank() == 4 && weight.rank() == 4 && weight[0] == x[1] && x[1] % how.groups == 0, kForm);
  Shape result{x[0], weight[1] * how.groups, 0, 0};
  require_operands(given, result[1], kForm);
  if (more.size() != 2) fail("conv_transpose2d: output_padding must be 2 integers, but was given {}", more.size());
  for (const int axis : {0, 1}) {
    const auto at = static_cast<std::size_t>(axis);
    if (more[at] < 0 || more[at] >= how.stride[at])  // otherwise no convolution of the result gives the shape of x
      fail("conv_transpose2d: output_padding must be less than the stride, but was given {}", more[at]);
    const std::int64_t extent = (x[2 + axis] - 1) * how.stride[at] + reach_of(how, weight, axis) + more[at];
    given.require(extent > padding_along(how, axis), "padding that leaves some of the result");
    result.set(2 + axis, extent - padding_along(how, axis));
  }
  const TensorType made{given.in[0].dtype, result, given.in[0].layout};
  require_image_epilogue(given, made);
  return {made};
}

/// Calls visit(pixel of image[b, c, h, w], element of weight[o, c/groups, kh, kw], pixel of result[b, o, oh, ow]) for
/// every multiplication of a convolution. Padded pixels are skipped.
template <class Visit>
void for_each_matmul(const Shape& image, const Shape& weight, const Shape& result, const Convolution& how,
                     const Visit& visit) {
  const std::int64_t filters = result[1] / how.groups, channels = weight[1];
  const std::int64_t height = image[2], width = image[3], rows = weight[2], columns = weight[3];
  std::size_t at = 0;
  const auto visit_pixel = [&](std::int64_t b, std::int64_t o, std::int64_t i, std::int64_t j) {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t u = 0; u < rows; ++u) {
        const std::int64_t row = i * how.stride[0] + u * how.dilation[0] - how.padding[kTop];
        if (row < 0 || row >= height) continue;
        const std::int64_t line = ((b * image[1] + o / filters * channels + c) * height + row) * width;
        for (std::int64_t v = 0; v < columns; ++v) {
          const std::int64_t column = j * how.stride[1] + v * how.dilation[1] - how.padding[kLeft];
          if (column < 0 || column >= width) continue;
          const std::int64_t tap = ((o * channels + c) * rows + u) * columns + v;
          visit(static_cast<std::size_t>(line + column), static_cast<std::size_t>(tap), at);
        }
      }
  };
  for (std::int64_t b = 0; b < result[0]; ++b)
    for (std::int64_t o = 0; o < result[1]; ++o)
      for (std::int64_t i = 0; i < result[2]; ++i)
        for (std::int64_t j = 0; j < result[3]; ++j, ++at) visit_pixel(b, o, i, j);
}

/// Initializes the sums: the bias, or 0.
void begin_sums(Operands in, OracleTensor& out) {
  const std::size_t image = extent(out, 2) * extent(out, 3), channels = extent(out, 1);
  for (std::size_t i = 0; i < out.reals.size(); ++i)
    out.reals[i] = in.size() > 2 ? in[2]->reals[i / image % channels] : 0;
}

void conv2d(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  begin_sums(in, out[0]);
  const std::span<const double> x = in[0]->reals, weight = in[1]->reals;
  const std::span<double> sums = out[0].reals;
  for_each_matmul(
      in[0]->type.shape, in[1]->type.shape, out[0].type.shape, convolution_of(attributes),
      [&](std::size_t pixel, std::size_t element, std::size_t result) { sums[result] += x[pixel] * weight[element]; });
}

/// The same multiplications, for the convolution with image and result swapped.
void conv_transpose2d(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  begin_sums(in, out[0]);
  const std::span<const double> x = in[0]->reals, weight = in[1]->reals;
  const std::span<double> sums = out[0].reals;
  for_each_matmul(
      out[0].type.shape, in[1]->type.shape, in[0]->type.shape, convolution_of(attributes),
      [&](std::size_t result, std::size_t element, std::size_t pixel) { sums[result] += x[pixel] * weight[element]; });
}

/// A convolution without its epilogue.
ValueId emit_sums(Builder& builder, Op op, const Attributes& attributes, std::span<const ValueId> own) {
  const Attributes plain = attributes.with(attr::kEpilogue, Epilogue());
  return builder.emit(op, {own.begin(), own.end()}, {plain.all().begin(), plain.all().end()})[0];
}

template <Op kOp>
std::vector<ValueId> expand_convolution(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  return {ended(builder, attributes, emit_sums(builder, kOp, attributes, own_operands(attributes, in)), in)};
}

std::vector<ValueId> expand_conv2d_shortcut(Builder& builder, const Attributes& attributes,
                                            std::span<const ValueId> in) {
  const ValueId residual = builder.conv2d(in[3], in[4], kNoValue, {});
  return {
      ended(builder, attributes, builder.add(emit_sums(builder, Op::kConv2d, attributes, in.first(3)), residual), in)};
}

/// The gradient of the weight[o, c/groups, kh, kw] of the convolution of `image`[b, c, h, w] whose result has the
/// gradient `made`[b, o, oh, ow]: a convolution whose taps are the pixels of `made`, so that stride and dilation change
/// places. Its samples are channels of the weight, and its channels are samples.
ValueId derive_weight(Builder& builder, const Derivation& node, ValueId image, ValueId made) {
  const Shape shape = builder.shape(image), weight = builder.shape(node.in[1]);
  Convolution how = convolution_of(node.attributes);
  ValueId by_channel = builder.transpose(image, {1, 0, 2, 3});  // [c, b, h, w]
  if (how.groups > 1) {                                         // [c/groups, groups*b, h, w]
    const std::int64_t channels = shape[1] / how.groups;
    const ValueId split = builder.reshape(by_channel, {how.groups, channels, shape[0], shape[2], shape[3]});
    by_channel = builder.reshape(builder.transpose(split, {1, 0, 2, 3, 4}),
                                 {channels, how.groups * shape[0], shape[2], shape[3]});
  }
  std::swap(how.stride, how.dilation);
  ValueId taps =  // [c/groups, o, kh or more, kw or more]
      builder.conv2d(by_channel, builder.transpose(made, {1, 0, 2, 3}), kNoValue, how);
  for (const int axis : {2, 3})  // pixels that no tap reached
    if (builder.shape(taps)[axis] != weight[axis]) taps = builder.slice(taps, axis, 0, weight[axis]);
  return builder.transpose(taps, {1, 0, 2, 3});
}

/// The gradients of weight and bias; `image` and `made` as in derive_weight.
std::vector<ValueId> derive_parameters(Builder& builder, const Derivation& node, ValueId image, ValueId made) {
  std::vector<ValueId> gradients(node.in.size(), kNoValue);
  if (node.wanted[1]) gradients[1] = derive_weight(builder, node, image, made);
  if (node.in.size() > 2 && node.wanted[2])
    gradients[2] = summed(builder, node.gradient(), {0, 2, 3}, builder.dtype(node.in[2]));
  return gradients;
}

std::vector<ValueId> derive_conv2d(Builder& builder, const Derivation& node) {
  std::vector<ValueId> gradients = derive_parameters(builder, node, node.in[0], node.gradient());
  if (!node.wanted[0]) return gradients;
  const Convolution how = convolution_of(node.attributes);
  const Shape image = builder.shape(node.in[0]), weight = builder.shape(node.in[1]);
  std::array<std::int64_t, 2> left_over{};  // pixels at the end that the stride skips
  for (const int axis : {0, 1})
    left_over[static_cast<std::size_t>(axis)] =
        (image[2 + axis] + padding_along(how, axis) - reach_of(how, weight, axis)) %
        how.stride[static_cast<std::size_t>(axis)];
  gradients[0] = builder.conv_transpose2d(node.gradient(), node.in[1], kNoValue, how, left_over);
  return gradients;
}

std::vector<ValueId> derive_conv_transpose2d(Builder& builder, const Derivation& node) {
  std::vector<ValueId> gradients = derive_parameters(builder, node, node.gradient(), node.in[0]);
  if (node.wanted[0])
    gradients[0] = builder.conv2d(node.gradient(), node.in[1], kNoValue, convolution_of(node.attributes));
  return gradients;
}

/// Per element of a convolution's result: two per multiplication of a pixel with an element of the weight, one for a
/// bias, and those of the epilogue.
double flops_of_pixel(const Attributes& attributes, const Shape& weight, bool has_bias) {
  const double sums = 2 * static_cast<double>(weight[1] * weight[2] * weight[3]);
  return sums + (has_bias ? 1 : 0) + flops_of(attributes[attr::kEpilogue]);
}

double conv2d_flops(const Attributes& attributes, Types in, Types out) {
  return elements_of(out[0]) * flops_of_pixel(attributes, in[1].shape, own_operands(attributes, in).size() > 2);
}

double conv2d_shortcut_flops(const Attributes& attributes, Types in, Types out) {
  const double channels = static_cast<double>(in[4].shape[1]);
  return elements_of(out[0]) * (flops_of_pixel(attributes, in[1].shape, true) + 1 + 2 * channels);
}

double conv_transpose2d_flops(const Attributes& attributes, Types in, Types out) {
  const Shape& weight = in[1].shape;  // [c, o/groups, kh, kw]
  const auto added = static_cast<double>(own_operands(attributes, in).size() - 2);
  return elements_of(in[0]) * 2 * static_cast<double>(weight[1] * weight[2] * weight[3]) +
         elements_of(out[0]) * (added + flops_of(attributes[attr::kEpilogue]));
}

/// Whether a non-finite weight is multiplied by the zero padding of an image is open: kernels may skip the padding.
bool opens_weights(std::size_t input, Special special) { return input == 1 && special != Special::kZeros; }

/// Every epilogue; those with a residual also with relu, which more kernels have than silu.
std::vector<ConvolutionEnd> residual_and_other_ends(DType vector) {
  std::vector<ConvolutionEnd> ends = convolution_ends(vector);
  std::erase_if(ends,
                [](const ConvolutionEnd& end) { return end.has_residual && end.activation != Activation::kNone; });
  ends.push_back({.has_residual = true, .activation = Activation::kRelu});
  ends.push_back({.bias = vector, .has_residual = true, .activation = Activation::kRelu});
  return ends;
}

void conv2d_cases(CaseList& list) {
  const auto [data, vector] = list.types();
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    for (const ConvolutionCase& c : convolution_cases())
      list.add(c.text(data, layout), c.conv2d(data, layout, {.bias = vector})).leaves_open = opens_weights;
    for (const ConvolutionCase& c : {ConvolutionCase{{2, 5, 7, 6}, {7, 5, 3, 3}, Builder::evenly(1, 1)},
                                     {{1, 64, 6, 6}, {128, 64, 1, 1}},
                                     {{1, 64, 8, 8}, {64, 64, 3, 3}, Builder::evenly(1, 1)}})
      for (const ConvolutionEnd& end : residual_and_other_ends(vector))
        list.add(fmt::format("{}, {}", c.text(data, layout), end.text()), c.conv2d(data, layout, end)).leaves_open =
            opens_weights;
  }
}

void conv2d_shortcut_cases(CaseList& list) {
  if (list.types().vector != DType::kF32) return;  // its bias has that dtype
  const ConvolutionCase c{{1, 64, 8, 8}, {64, 64, 3, 3}, Builder::evenly(1, 1)};
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSilu})
      list.add(fmt::format("{}, {}", c.text(list.types().data, layout), name_of(activation)),
               c.conv2d_shortcut(list.types().data, layout, 32, activation))
          .leaves_open = opens_weights;
}

void conv_transpose2d_cases(CaseList& list) {
  const auto [data, vector] = list.types();
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
    for (const ConvolutionCase& c : transposed_cases())
      list.add(c.text(data, layout), c.conv_transpose2d(data, layout, vector)).leaves_open = opens_weights;
}

/// Convolutions of an autoencoder's decoder at a quarter of its area, and of the tiny autoencoder at 512x512, in the
/// form that `channels-last` and `fuse` give them.
TensorType square_image(DType dtype, std::int64_t channels, std::int64_t side) {
  return {dtype, {1, channels, side, side}, Layout::kChannelsLast};
}
void large_conv2d_cases(CaseList& list) {
  struct Channels {
    std::int64_t from, to, side;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [from, to, side] : {Channels{512, 512, 64},
                                         {256, 256, 256},
                                         {256, 128, 512},
                                         {128, 128, 512},
                                         {128, 3, 512},
                                         {64, 64, 64},
                                         {64, 64, 128},
                                         {64, 64, 256},
                                         {64, 64, 512},
                                         {3, 64, 512},
                                         {64, 3, 512}})
      list.add(fmt::format("conv2d {} 3x3 {} to {} channels, {}x{}", name_of(dtype), from, to, side, side),
               {square_image(dtype, from, side), {dtype, {to, from, 3, 3}}, {dtype, {to}}},
               {{attr::kPadding, Ints{1, 1, 1, 1}}}, {false, true, true});
    list.add(fmt::format("conv2d {} 1x1 256 to 128 channels, 512x512", name_of(dtype)),
             {square_image(dtype, 256, 512), {dtype, {128, 256, 1, 1}}, {dtype, {128}}}, {}, {false, true, true});
  }
}
void large_conv_transpose2d_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int64_t channels : {256, 64})
      list.add(fmt::format("conv_transpose2d {} 4x4 {} to {} channels, 256x256", name_of(dtype), channels, channels),
               {square_image(dtype, channels, 256), {dtype, {channels, channels, 4, 4}}, {dtype, {channels}}},
               {{attr::kStride, Ints{2, 2}}, {attr::kPadding, Ints{1, 1, 1, 1}}}, {false, true, true});
}

constexpr std::array kConvolutions = {
    OpDefinition{.op = Op::kConv2d,
                 .kind = OpKind::kContraction,
                 .infer = conv2d_types,
                 .evaluate = conv2d,
                 .expand = expand_convolution<Op::kConv2d>,
                 .derive = derive_conv2d,
                 .flops = conv2d_flops,
                 .samples = Samples::kBatched,
                 .any_layout = true,
                 .cases = conv2d_cases,
                 .benchmarks = large_conv2d_cases},
    OpDefinition{.op = Op::kConv2dShortcut,
                 .kind = OpKind::kContraction,
                 .infer = conv2d_shortcut_types,
                 .expand = expand_conv2d_shortcut,
                 .flops = conv2d_shortcut_flops,
                 .samples = Samples::kBatched,
                 .any_layout = true,
                 .cases = conv2d_shortcut_cases},
    OpDefinition{.op = Op::kConvTranspose2d,
                 .kind = OpKind::kContraction,
                 .infer = conv_transpose2d_types,
                 .evaluate = conv_transpose2d,
                 .expand = expand_convolution<Op::kConvTranspose2d>,
                 .derive = derive_conv_transpose2d,
                 .flops = conv_transpose2d_flops,
                 .samples = Samples::kBatched,
                 .any_layout = true,
                 .cases = conv_transpose2d_cases,
                 .benchmarks = large_conv_transpose2d_cases},
};

}  // namespace

std::span<const OpDefinition> convolutions() { return kConvolutions; }

}  // namespace headroom::ops
