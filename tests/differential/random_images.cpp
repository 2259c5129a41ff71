// Images [b, c, h, w], row-major or channels-last, and ops on images: all forms of convolutions, group norms,
// resampling, and tokens of pixels.

#include <algorithm>
#include <array>
#include <cmath>

#include "differential/graph_maker.hpp"

namespace headroom::differential {
namespace {

constexpr std::int64_t kMostPixels = 4096;  // elements of an image, so that graphs stay small
constexpr std::array kActivations = {Activation::kNone, Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf,
                                     Activation::kRelu};

}  // namespace

/// The value in that layout: itself, or a reshape to its own extents. Values other than images are row-major.
ValueId GraphMaker::laid(ValueId value, Layout layout) {
  const TensorType type = graph_.type(value);
  if (type.layout == layout || (layout == Layout::kChannelsLast && type.shape.rank() != 4)) return value;
  const ValueId made = b_.reshape(value, extents_of(type.shape));
  graph_.set_layout(made, layout);
  sizes_[made] = size(value);
  return made;
}

/// An existing image or a new one, in its layout or converted to another.
ValueId GraphMaker::image() {
  std::vector<ValueId> images;
  for (const ValueId value : visible_) {
    const TensorType& type = graph_.type(value);
    if (type.dtype == dtype_ && type.shape.rank() == 4 && type.shape.numel() <= kMostPixels) images.push_back(value);
  }
  const auto side = [&] { return 3 + static_cast<std::int64_t>(choose_.below(4)); };
  const std::int64_t channels = choose_.of({1, 2, 3, 4, 6, 8, 9});
  const ValueId x = images.empty() || choose_.one_in(4) ? operand(typed({dims_.batch, channels, side(), side()}))
                                                        : b_.read(choose_.from(images));
  return choose_.one_in(3) ? laid(x, choose_.of({Layout::kRowMajor, Layout::kChannelsLast, Layout::kChannelsLast})) : x;
}

void GraphMaker::add_image() {
  const ValueId x = image();
  switch (choose_.below(8)) {
    case 0:
    case 1:
    case 2:
      add_convolution(x);
      break;
    case 3:
      add_group_norm(x);
      break;
    case 4:
      add_resampled(x);
      break;
    case 5:
      add_second_image(x);
      break;
    case 6:
      add_tokens_of(x);
      break;
    default: {
      const Layout other = graph_.type(x).layout == Layout::kRowMajor ? Layout::kChannelsLast : Layout::kRowMajor;
      keep(laid(x, other), size(x));
    }
  }
}

/// A convolution in one of many forms, or a transposed one.
void GraphMaker::add_convolution(ValueId x) {
  const bool is_transposed = choose_.one_in(4);
  const Shape shape = graph_.type(x).shape;
  Builder::Convolution how{.groups = choose_.of({std::int64_t{1}, std::int64_t{1}, std::int64_t{2}, shape[1]})};
  if (shape[1] % how.groups != 0) how.groups = 1;
  const std::int64_t filters = how.groups * choose_.of({1, 2, 5});
  Shape kernel = is_transposed ? Shape{shape[1], filters / how.groups} : Shape{filters, shape[1] / how.groups};
  for (std::int64_t& padding : how.padding) padding = static_cast<std::int64_t>(choose_.below(is_transposed ? 2 : 3));
  for (const std::size_t axis : {0U, 1U}) {
    const std::int64_t extent = shape[2 + static_cast<int>(axis)];
    how.stride[axis] = choose_.of({1, 2});
    std::int64_t taps = choose_.of({1, 2, 3});
    // For a transposed convolution, the padding must leave part of the result.
    if (is_transposed ? extent - 1 + taps <= how.padding[axis] + how.padding[axis + 2] : taps > extent)
      taps = is_transposed ? 3 : extent;
    kernel.push_back(taps);
    const bool may_dilate = is_transposed || extent >= 2 * (taps - 1) + 1;
    if (may_dilate && choose_.one_in(3)) how.dilation[axis] = 2;
  }
  const bool is_made = choose_.one_in(6);  // computed in the graph, unlike weights
  const ValueId weight =
      is_made ? laid(operand(typed(kernel)), Layout::kRowMajor) : graph_.add_param(fresh("w"), typed(kernel));
  const DType side_dtype = choose_.one_in(4) ? DType::kF32 : dtype_;
  const bool has_bias = !choose_.one_in(4);
  const ValueId bias = has_bias ? graph_.add_param(fresh("bias"), {side_dtype, Shape{filters}}) : kNoValue;
  const double taps = static_cast<double>(kernel.numel() / kernel[0]);
  const double magnitude = size(x) * (is_made ? size(weight) * std::sqrt(taps) : 1) + 1;
  if (is_transposed) {
    const std::array<std::int64_t, 2> more{how.stride[0] - 1, choose_.one_in(2) ? how.stride[1] - 1 : 0};
    keep(b_.conv_transpose2d(x, weight, bias, how, more), magnitude);
    return;
  }
  const ValueId y = b_.conv2d(x, weight, bias, how);
  choose_.one_in(2) ? add_end_of_convolution(graph_.nodes().back(), magnitude) : static_cast<void>(keep(y, magnitude));
}

/// Replaces the convolution by a node that also includes the ops that may follow it.
void GraphMaker::add_end_of_convolution(Node plain, double magnitude) {
  Epilogue epilogue;
  if (choose_.one_in(2)) {
    const ValueId residual = operand(graph_.type(plain.results[0]));
    plain.inputs.push_back(residual);
    epilogue = epilogue.then(Op::kAdd, choose_.below(2));
    magnitude = std::hypot(magnitude, size(residual));
  }
  if (const Activation activation = choose_.from(kActivations); activation != Activation::kNone)
    epilogue = epilogue.then(op_of(activation));
  const Attributes whole = plain.attributes.with(attr::kEpilogue, epilogue);
  keep(b_.emit(Op::kConv2d, plain.inputs, {whole.all().begin(), whole.all().end()})[0], magnitude);
}

/// With weight and bias, one of them, or none; sometimes for the first channels only.
void GraphMaker::add_group_norm(ValueId x) {
  const TensorType type = graph_.type(x);
  const std::int64_t channels = type.shape[1];
  std::vector<ValueId> operands = {x};
  if (!choose_.one_in(3)) operands.push_back(vector_weight(channels, type.dtype, "gain"));
  if (operands.size() > 1 && choose_.one_in(2))
    operands.push_back(graph_.add_param(fresh("bias"), graph_.type(operands[1])));
  const std::int64_t counted = channels - (channels > 1 && choose_.one_in(4) ? 1 : 0);
  std::int64_t groups = choose_.of({1, 2, 3, 4});
  while (counted % groups != 0) --groups;
  keep(b_.emit(Op::kGroupNorm, operands,
               {{"groups", groups},
                {"eps", choose_.of({1e-6, 1e-5})},
                {attr::kEpilogue, Epilogue(choose_.from(kActivations))},
                {"channels", counted == channels && choose_.one_in(2) ? std::int64_t{0} : counted}})[0],
       1.5);
}

void GraphMaker::add_resampled(ValueId x) {
  const Shape shape = graph_.type(x).shape;
  if (choose_.one_in(3)) {
    const std::int64_t window = std::min({choose_.of({std::int64_t{2}, std::int64_t{3}}), shape[2], shape[3]});
    keep(choose_.one_in(2) ? b_.avg_pool2d(x, window) : b_.max_pool2d(x, window), size(x));
    return;
  }
  std::array<std::int64_t, 2> to = {choose_.of({1, 3, 7}), choose_.of({2, 5, 8})};
  if (choose_.one_in(2)) to = {2 * shape[2], 2 * shape[3]};
  keep(b_.resize2d(x, to, choose_.one_in(2) ? ResizeMode::kNearest : ResizeMode::kBilinear), size(x));
}

/// An operation with another image in any layout: concatenation, addition, or a broadcast value per channel or pixel.
void GraphMaker::add_second_image(ValueId x) {
  const TensorType type = graph_.type(x);
  TensorType other = type;
  other.layout = choose_.of({Layout::kRowMajor, Layout::kChannelsLast});
  const std::size_t form = choose_.below(4);
  if (form == 1) other.shape = {choose_.of({std::int64_t{1}, type.shape[0]}), type.shape[1], 1, 1};
  if (form == 2) other.shape = {1, 1, type.shape[2], type.shape[3]};
  const ValueId second = operand(other);
  if (form == 3) {
    const bool is_first = choose_.one_in(2);
    keep(b_.concat({is_first ? second : x, is_first ? x : second}, choose_.of({1, 1, 2, 3})),
         std::max(size(x), size(second)));
    return;
  }
  keep(choose_.one_in(2) ? b_.add(x, second) : b_.mul(second, x), 1.5 * size(x) * size(second) + 1);
}

/// Pixels as tokens [b, h w, c], a view if the image is channels-last, and sometimes back.
void GraphMaker::add_tokens_of(ValueId x) {
  const Shape shape = graph_.type(x).shape;
  const std::int64_t pixels = shape[2] * shape[3];
  const double s = size(x);
  const ValueId tokens = b_.transpose(b_.reshape(x, {shape[0], shape[1], pixels}), {0, 2, 1});  // [b, h w, c]
  const ValueId y = keep(choose_.one_in(2) ? b_.softmax(tokens) : tokens, s);
  if (choose_.one_in(2)) return;
  const ValueId rows = b_.reshape(y, {shape[0], shape[2], shape[3], shape[1]});
  const ValueId image = b_.transpose(rows, {0, 3, 1, 2});  // [b, c, h, w]
  if (choose_.one_in(2)) graph_.set_layout(image, Layout::kChannelsLast);
  keep(image, s);
}

/// An autoencoder block: norms, activations and convolutions with a residual, and one at twice the resolution.
void GraphMaker::add_image_block() {
  const auto scope = b_.block(fresh("resnet"));
  const ValueId x = image();
  const std::int64_t channels = graph_.type(x).shape[1];
  std::int64_t groups = choose_.of({1, 2, 4});
  while (channels % groups != 0) --groups;
  const auto conv = [&](ValueId from) {
    const ValueId weight = graph_.add_param(fresh("w"), typed({channels, channels, 3, 3}));
    const ValueId bias = choose_.one_in(4) ? kNoValue : graph_.add_param(fresh("bias"), typed({channels}));
    const ValueId y = b_.conv2d(from, weight, bias, {.padding = {1, 1, 1, 1}});
    sizes_[y] = size(from) + 1;
    return y;
  };
  ValueId y = x;
  for (int i = choose_.of({1, 2}); i > 0; --i) {
    const ValueId gain = graph_.add_param(fresh("gain"), typed({channels}));
    y = b_.emit(Op::kGroupNorm, {y, gain}, {{"groups", groups}, {"eps", 1e-6}})[0];
    y = conv(choose_.one_in(3) ? y : b_.silu(y));
  }
  const ValueId sum = keep(choose_.one_in(2) ? b_.add(x, y) : b_.add(y, x), size(x) + size(y));
  const Shape shape = graph_.type(sum).shape;
  if (choose_.one_in(2) || shape.numel() > kMostPixels) return;
  const ValueId up = conv(b_.resize2d(sum, {2 * shape[2], 2 * shape[3]}, ResizeMode::kNearest));
  keep(up, size(sum) + 1);
}

}  // namespace headroom::differential
