#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "ir/infer_rules.hpp"

// Result types of ops that move data, and of image ops.

namespace headroom::infer_rules {
namespace {

/// The attribute "axis", which counts from the front and must exist in the first operand.
int axis_of(Op op, const Attributes& attributes, Types in) {
  const std::int64_t axis = attributes.get_int("axis");
  if (axis < 0 || axis >= in[0].shape.rank()) {
    fail("{}: axis must be in 0..{} for {}, but was given {}", name_of(op), in[0].shape.rank() - 1, text_of(in[0]),
         axis);
  }
  return static_cast<int>(axis);
}

}  // namespace

TensorType reshape(const Attributes& attributes, Types in) {
  const std::vector<std::int64_t>& extents = attributes.get_ints("shape");
  const bool positive = std::ranges::all_of(extents, [](std::int64_t extent) { return extent > 0; });
  if (!positive || extents.size() > static_cast<std::size_t>(Shape::kMaxRank) ||
      Shape(extents).numel() != in[0].shape.numel()) {
    fail("reshape: expected at most {} positive extents with {} elements for {}, but was given [{}]", Shape::kMaxRank,
         in[0].shape.numel(), text_of(in[0]), fmt::join(extents, ", "));
  }
  return {in[0].dtype, Shape(extents)};
}

TensorType transpose(const Attributes& attributes, Types in) {
  const std::vector<std::int64_t>& perm = attributes.get_ints("perm");
  std::vector<std::int64_t> sorted = perm;
  std::ranges::sort(sorted);
  std::vector<std::int64_t> axes(static_cast<std::size_t>(in[0].shape.rank()));
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (sorted != axes) {
    fail("transpose: perm must name each axis of {} once, but was given [{}]", text_of(in[0]), fmt::join(perm, ", "));
  }
  Shape shape;
  for (const std::int64_t axis : perm) shape.push_back(in[0].shape[static_cast<int>(axis)]);
  return {in[0].dtype, shape};
}

TensorType concat(const Attributes& attributes, Types in) {
  const int axis = axis_of(Op::kConcat, attributes, in);
  Shape shape = in[0].shape;
  for (const TensorType& part : in.subspan(1)) {
    require(part.dtype == in[0].dtype && part.shape.rank() == shape.rank(), Op::kConcat, "parts of one dtype and rank",
            in);
    const std::int64_t total = shape[axis] + part.shape[axis];
    shape.set(axis, part.shape[axis]);
    require(part.shape == shape, Op::kConcat, fmt::format("parts that differ in axis {} only", axis), in);
    shape.set(axis, total);
  }
  return {in[0].dtype, shape};
}

TensorType slice(const Attributes& attributes, Types in) {
  const int axis = axis_of(Op::kSlice, attributes, in);
  const std::int64_t start = attributes.get_int("start");
  const std::int64_t size = attributes.get_int("size");
  const std::int64_t extent = in[0].shape[axis];
  if (start < 0 || start >= extent || size < 1 || size > extent - start) {
    fail("slice: [{}, {} + {}) is not a stretch of axis {} of {}", start, start, size, axis, text_of(in[0]));
  }
  Shape shape = in[0].shape;
  shape.set(axis, size);
  return {in[0].dtype, shape};
}

TensorType row(Types in) {
  require(in[0].shape.rank() >= 1 && in[1] == TensorType{DType::kI32, Shape{}}, Op::kRow,
          "table[n, ...] and an i32 scalar", in);
  return {in[0].dtype, Shape(in[0].shape.dims().subspan(1))};
}

TensorType conv2d(const Attributes& attributes, Types in) {
  const Shape& x = in[0].shape;
  const Shape& weight = in[1].shape;
  const std::int64_t stride = attributes.get_int("stride");
  const std::int64_t padding = attributes.get_int("padding");
  constexpr std::string_view kForm = "x[b, c, h, w], weight[o, c, kh, kw] and bias[o] of one floating-point dtype";
  require(is_float(in[0].dtype) && in[1].dtype == in[0].dtype && in[2].dtype == in[0].dtype, Op::kConv2d, kForm, in);
  require(x.rank() == 4 && weight.rank() == 4 && weight[1] == x[1] && in[2].shape == Shape{weight[0]}, Op::kConv2d,
          kForm, in);
  if (stride < 1 || padding < 0) {
    fail("conv2d: expected a positive stride and no negative padding, but was given {} and {}", stride, padding);
  }
  const std::int64_t height = x[2] + 2 * padding - weight[2];
  const std::int64_t width = x[3] + 2 * padding - weight[3];
  require(height >= 0 && width >= 0, Op::kConv2d, "a weight no larger than the padded image", in);
  return {in[0].dtype, Shape{x[0], weight[0], height / stride + 1, width / stride + 1}, in[0].layout};
}

TensorType max_pool2d(const Attributes& attributes, Types in) {
  const Shape& x = in[0].shape;
  const std::int64_t window = attributes.get_int("window");
  require(is_float(in[0].dtype) && x.rank() == 4, Op::kMaxPool2d, "x[b, c, h, w] of a floating-point dtype", in);
  if (window < 1 || window > x[2] || window > x[3]) {
    fail("max_pool2d: the window must be in 1..{} for {}, but was given {}", std::min(x[2], x[3]), text_of(in[0]),
         window);
  }
  return {in[0].dtype, Shape{x[0], x[1], x[2] / window, x[3] / window}, in[0].layout};
}

TensorType mean(const Attributes& attributes, Types in) {
  const int axis = axis_of(Op::kMean, attributes, in);
  require(is_float(in[0].dtype), Op::kMean, "a floating-point dtype", in);
  return {in[0].dtype, Shape(in[0].shape.dims().first(static_cast<std::size_t>(axis)))};
}

}  // namespace headroom::infer_rules
