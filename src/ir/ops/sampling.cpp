#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Images, NCHW: resizing and pooling.

namespace headroom::ops {
namespace {

void require_image(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype) && given.in[0].shape.rank() == 4,
                "x[b, c, h, w] of a floating-point dtype");
}

std::vector<TensorType> resize2d_types(const TypeQuery& given) {
  require_image(given);
  const TensorType& x = given.in[0];
  const std::vector<std::int64_t>& size = given.attributes[attr::kImageSize];
  if (size.size() != 2 || size[0] < 1 || size[1] < 1)
    fail("resize2d: the size must be a height and a width, but was given [{}]", fmt::join(size, ", "));
  return {{x.dtype, Shape{x.shape[0], x.shape[1], size[0], size[1]}, x.layout}};
}

std::vector<TensorType> pool_types(const TypeQuery& given) {
  require_image(given);
  const Shape& x = given.in[0].shape;
  const std::int64_t window = given.attributes[attr::kWindow];
  if (window < 1 || window > x[2] || window > x[3])
    fail("{}: the window must be in 1..{} for {}, but was given {}", name_of(given.op), std::min(x[2], x[3]),
         given.in[0], window);
  return {{given.in[0].dtype, Shape{x[0], x[1], x[2] / window, x[3] / window}, given.in[0].layout}};
}

/// Calls pixel(plane of x, row, column) for each element of the result.
template <typename Pixel>
void for_each_pixel(const OracleTensor& x, OracleTensor& out, Pixel pixel) {
  const std::size_t height = extent(out, 2), width = extent(out, 3);
  const std::size_t plane = extent(x, 2) * extent(x, 3);
  for (std::size_t i = 0; i < out.reals.size(); ++i)
    out.reals[i] = pixel(x.reals.data() + i / (height * width) * plane, i / width % height, i % width);
}

void nearest(const OracleTensor& x, OracleTensor& out) {
  for_each_pixel(x, out, [&](const double* plane, std::size_t row, std::size_t column) {
    return plane[row * extent(x, 2) / extent(out, 2) * extent(x, 3) + column * extent(x, 3) / extent(out, 3)];
  });
}

/// Two neighbours along an axis, and the weight of the second one.
struct Neighbours {
  std::size_t first, second;
  double weight;
};
/// The position of the centre of element `i` of `size` among `extent` elements. Edge elements extend beyond the
/// border.
Neighbours neighbours_of(std::size_t i, std::size_t extent, std::size_t size) {
  const double centre = (static_cast<double>(i) + 0.5) * static_cast<double>(extent) / static_cast<double>(size) - 0.5;
  const double at = std::max(0.0, centre);
  const auto first = static_cast<std::size_t>(at);
  return {first, std::min(first + 1, extent - 1), at - static_cast<double>(first)};
}

void bilinear(const OracleTensor& x, OracleTensor& out) {
  for_each_pixel(x, out, [&](const double* plane, std::size_t row, std::size_t column) {
    const Neighbours down = neighbours_of(row, extent(x, 2), extent(out, 2));
    const Neighbours across = neighbours_of(column, extent(x, 3), extent(out, 3));
    const auto in_row = [&](std::size_t y) {
      const double* line = plane + y * extent(x, 3);
      return (1 - across.weight) * line[across.first] + across.weight * line[across.second];
    };
    return (1 - down.weight) * in_row(down.first) + down.weight * in_row(down.second);
  });
}

void resize2d(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  attributes[attr::kMode] == ResizeMode::kNearest ? nearest(*in[0], out[0]) : bilinear(*in[0], out[0]);
}

/// join(all values of a window).
template <typename Join>
void pool(const Attributes& attributes, const OracleTensor& x, OracleTensor& out, Join join) {
  const auto window = static_cast<std::size_t>(attributes[attr::kWindow]);
  std::vector<double> values(window * window);
  for_each_pixel(x, out, [&](const double* plane, std::size_t row, std::size_t column) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = plane[(row * window + i / window) * extent(x, 3) + column * window + i % window];
    return join(std::span<const double>(values));
  });
}

void max_pool2d(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  pool(attributes, *in[0], out[0], [](std::span<const double> values) {
    double largest = values[0];
    for (const double value : values)
      if (value > largest || std::isnan(value)) largest = value;  // a NaN wins, as in PyTorch
    return largest;
  });
}

void avg_pool2d(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  pool(attributes, *in[0], out[0], mean_of);
}

/// How much of each of `extent` pixels each of `size` pixels takes, along one axis: [extent, size].
std::vector<double> shares_along(std::int64_t extent, std::int64_t size, ResizeMode mode) {
  std::vector<double> shares(static_cast<std::size_t>(extent * size), 0);
  const auto share = [&](std::size_t from, std::size_t to) -> double& {
    return shares[from * static_cast<std::size_t>(size) + to];
  };
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
    if (mode == ResizeMode::kNearest) {
      share(i * static_cast<std::size_t>(extent) / static_cast<std::size_t>(size), i) = 1;
      continue;
    }
    const Neighbours at = neighbours_of(i, static_cast<std::size_t>(extent), static_cast<std::size_t>(size));
    share(at.first, i) += 1 - at.weight;
    share(at.second, i) += at.weight;
  }
  return shares;
}

/// Whether every pixel becomes a rectangle of equal pixels.
bool repeats_pixels(const Attributes& attributes, const Shape& from, const Shape& to) {
  return attributes[attr::kMode] == ResizeMode::kNearest && to[2] % from[2] == 0 && to[3] % from[3] == 0;
}

/// Every pixel gets the gradients of the pixels that it was taken for, each by its share.
std::vector<ValueId> derive_resize2d(Builder& builder, const Derivation& node) {
  const TensorType type = builder.graph().type(node.in[0]);
  const Shape from = type.shape, to = builder.shape(node.gradient());
  if (repeats_pixels(node.attributes, from, to)) {
    const ValueId split =
        builder.reshape(node.gradient(), {from[0], from[1], from[2], to[2] / from[2], from[3], to[3] / from[3]});
    return {builder.sum(split, {3, 5})};
  }
  const DType working = summing_dtype(type.dtype);
  ValueId made = builder.cast(node.gradient(), working);
  for (const int axis : {3, 2}) {  // the innermost axis, which the columns are first and then the rows
    const ValueId shares = builder.constant(shares_along(from[axis], to[axis], node.attributes[attr::kMode]),
                                            Shape{from[axis], to[axis]}, working);
    made = builder.transpose(builder.linear(made, shares), {0, 1, 3, 2});
  }
  return {builder.cast(made, type.dtype)};
}

/// An image cut into windows: [b, c, rows, columns, window * window]. Pixels that fill no window are left out.
ValueId windows_of(Builder& builder, ValueId x, std::int64_t window) {
  const Shape shape = builder.shape(x);
  const std::int64_t rows = shape[2] / window, columns = shape[3] / window;
  for (const auto& [axis, size] : {std::pair(2, rows * window), std::pair(3, columns * window)})
    if (shape[axis] != size) x = builder.slice(x, axis, 0, size);
  const ValueId split = builder.reshape(x, {shape[0], shape[1], rows, window, columns, window});
  return builder.reshape(builder.transpose(split, {0, 1, 2, 4, 3, 5}),
                         {shape[0], shape[1], rows, columns, window * window});
}

/// The inverse, with 0 for pixels that fill no window.
ValueId joined_windows(Builder& builder, ValueId windows, const Shape& image, std::int64_t window) {
  const Shape shape = builder.shape(windows);
  const std::int64_t height = shape[2] * window, width = shape[3] * window;
  const ValueId split = builder.reshape(windows, {shape[0], shape[1], shape[2], shape[3], window, window});
  const ValueId joined =
      builder.reshape(builder.transpose(split, {0, 1, 2, 4, 3, 5}), {shape[0], shape[1], height, width});
  if (height == image[2] && width == image[3]) return joined;
  return builder.pad(joined, {0, 0, 0, 0}, {0, 0, image[2] - height, image[3] - width});
}

/// The first of the largest pixels of a window gets its gradient.
std::vector<ValueId> derive_max_pool2d(Builder& builder, const Derivation& node) {
  const TensorType type = builder.graph().type(node.in[0]);
  const std::int64_t window = node.attributes[attr::kWindow];
  const ValueId windows = windows_of(builder, node.in[0], window);  // [b, c, rows, columns, window * window]
  Shape column = builder.shape(windows);
  column.set(4, 1);
  std::vector<double> places;
  for (std::int64_t i = 0; i < window * window; ++i) places.push_back(static_cast<double>(i));
  const ValueId place = builder.constant(std::move(places), Shape{window * window}, DType::kI32);
  const ValueId is_chosen = builder.equal(with_shape(builder, builder.argmax(windows, 4), column), place);
  const ValueId spread = builder.where(is_chosen, with_shape(builder, node.gradient(), column),
                                       builder.constant({0}, Shape{}, type.dtype));
  return {joined_windows(builder, spread, type.shape, window)};
}

/// All pixels of a window share its gradient.
std::vector<ValueId> derive_avg_pool2d(Builder& builder, const Derivation& node) {
  const Shape shape = builder.shape(node.in[0]);
  const std::int64_t window = node.attributes[attr::kWindow];
  const ValueId share = builder.mul_scalar(node.gradient(), 1 / static_cast<double>(window * window));
  Shape column = builder.shape(share);
  column.push_back(1);
  Shape spread = column;
  spread.set(4, window * window);
  return {joined_windows(builder, builder.broadcast(with_shape(builder, share, column), spread), shape, window)};
}

double resize2d_flops(const Attributes& attributes, Types /*in*/, Types out) {
  constexpr double kBilinear = 9;  // three interpolations
  return attributes[attr::kMode] == ResizeMode::kNearest ? 0 : kBilinear * static_cast<double>(out[0].shape.numel());
}

std::string_view suffix_of(Layout layout) { return layout == Layout::kChannelsLast ? ", channels last" : ""; }

void resize2d_cases(CaseList& list) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
    for (const ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kBilinear}) {
      list.add(fmt::format("{}{}", name_of(mode), suffix_of(layout)), {list.data({2, 9, 5, 7}, layout)},
               {{attr::kImageSize, Ints{10, 9}}, {attr::kMode, mode}});
      list.add(fmt::format("{}, borders alone{}", name_of(mode), suffix_of(layout)), {list.data({1, 2, 2, 2}, layout)},
               {{attr::kImageSize, Ints{2, 1}}, {attr::kMode, mode}});
    }
}

void pool_cases(CaseList& list) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
    for (const std::int64_t window : {2, 3})
      for (const Shape& shape : {Shape{2, 9, 12, 7}, Shape{1, 32, 8, 8}})
        list.add(fmt::format("{}, window of {}{}", shape, window, suffix_of(layout)), {list.data(shape, layout)},
                 {{attr::kWindow, window}});
}

constexpr std::array kSampling = {
    OpDefinition{.op = Op::kResize2d,
                 .infer = resize2d_types,
                 .evaluate = resize2d,
                 .derive = derive_resize2d,
                 .flops = resize2d_flops,
                 .samples = Samples::kBatched,
                 .any_layout = true,
                 .goes_along_rows = true,
                 .cases = resize2d_cases},
    OpDefinition{.op = Op::kMaxPool2d,
                 .infer = pool_types,
                 .evaluate = max_pool2d,
                 .derive = derive_max_pool2d,
                 .flops = for_each_input<1>,
                 .samples = Samples::kBatched,
                 .any_layout = true,
                 .cases = pool_cases},
    OpDefinition{.op = Op::kAvgPool2d,
                 .infer = pool_types,
                 .evaluate = avg_pool2d,
                 .derive = derive_avg_pool2d,
                 .flops = for_each_input<1>,
                 .samples = Samples::kBatched,
                 .any_layout = true,
                 .cases = pool_cases},
};

}  // namespace

std::span<const OpDefinition> sampling() { return kSampling; }

}  // namespace headroom::ops
