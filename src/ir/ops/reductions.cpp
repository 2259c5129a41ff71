#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Reductions over axes, and the indices of the largest elements.

namespace headroom::ops {
namespace {

std::vector<TensorType> reduced_types(const TypeQuery& given) {
  const TensorType& x = given.in[0];
  given.require(is_float(x.dtype), "a floating-point dtype");
  const std::vector<std::int64_t>& axes = given.attributes[attr::kAxes];
  const bool rises = std::ranges::adjacent_find(axes, std::greater_equal<>()) == axes.end();
  if (axes.empty() || !rises || axes.front() < 0 || axes.back() >= x.shape.rank())
    fail("{}: axes must be one or more of 0..{} for {}, in rising order", name_of(given.op), x.shape.rank() - 1, x);
  Shape kept;
  for (int axis = 0; axis < x.shape.rank(); ++axis)
    if (std::ranges::find(axes, axis) == axes.end()) kept.push_back(x.shape[axis]);
  return {{x.dtype, kept}};
}

std::vector<TensorType> argmax_types(const TypeQuery& given) {
  const int axis = axis_of(given);
  given.require(is_float(given.in[0].dtype) && given.in[0].shape[axis] > 0, "a floating-point dtype, and elements");
  Shape kept;
  for (int k = 0; k < given.in[0].shape.rank(); ++k)
    if (k != axis) kept.push_back(given.in[0].shape[k]);
  return {{DType::kI32, kept}};
}

std::vector<TensorType> topk_types(const TypeQuery& given) {
  const TensorType& x = given.in[0];
  given.require(is_float(x.dtype) && x.shape.rank() >= 1, "x[..., d] of a floating-point dtype");
  const std::int64_t k = given.attributes[attr::kK];
  if (k < 1 || k > x.shape[-1]) fail("topk: k must be in 1..{} for {}, but was given {}", x.shape[-1], x, k);
  Shape shape = x.shape;
  shape.set(-1, k);
  return {{x.dtype, shape}, {DType::kI32, shape}};
}

/// Strides of the kept axes of x, in x's axes: 0 along reduced axes.
Shape kept_strides(const Shape& x, const std::vector<std::int64_t>& axes) {
  Shape strides = x;
  std::int64_t stride = 1;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    const bool disappears = std::ranges::find(axes, axis) != axes.end();
    strides.set(axis, disappears ? 0 : stride);
    if (!disappears) stride *= x[axis];
  }
  return strides;
}

/// Calls visit(index in x, index in the result), in row-major order.
template <typename Visit>
void for_each_reduced(const Attributes& attributes, const OracleTensor& x, OracleTensor& out, Visit visit) {
  const Shape dense = row_major_strides(x.type.shape);
  const Shape kept = kept_strides(x.type.shape, attributes[attr::kAxes]);
  for (std::size_t i = 0; i < x.reals.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t to = 0;
    for (int axis = 0; axis < dense.rank(); ++axis) {
      to += rest / dense[axis] * kept[axis];
      rest %= dense[axis];
    }
    visit(x.reals[i], out.reals[static_cast<std::size_t>(to)]);
  }
}

void sum(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  std::ranges::fill(out[0].reals, 0.0);
  for_each_reduced(attributes, *in[0], out[0], [](double x, double& total) { total += x; });
}

void mean(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  sum(attributes, in, out);
  const auto count = static_cast<double>(in[0]->reals.size()) / static_cast<double>(out[0].reals.size());
  for (double& total : out[0].reals) total /= count;
}

void amax(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  std::ranges::fill(out[0].reals, -std::numeric_limits<double>::infinity());
  for_each_reduced(attributes, *in[0], out[0], [](double x, double& most) {
    if (x > most || std::isnan(x)) most = x;
  });
}

void amin(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  std::ranges::fill(out[0].reals, std::numeric_limits<double>::infinity());
  for_each_reduced(attributes, *in[0], out[0], [](double x, double& least) {
    if (x < least || std::isnan(x)) least = x;
  });
}

/// NaN is larger than any number.
bool is_larger(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

void argmax(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const auto axis = static_cast<int>(attributes[attr::kAxis]);
  const std::size_t count = extent(x, axis);
  const auto step = static_cast<std::size_t>(row_major_strides(x.type.shape)[axis]);
  for (std::size_t i = 0; i < out[0].integers.size(); ++i) {
    const double* const first = x.reals.data() + i / step * step * count + i % step;
    std::size_t largest = 0;
    for (std::size_t k = 1; k < count; ++k)
      if (is_larger(first[k * step], first[largest * step])) largest = k;
    out[0].integers[i] = static_cast<std::int64_t>(largest);
  }
}

void topk(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const std::size_t width = extent(*in[0], -1);
  const auto k = static_cast<std::size_t>(attributes[attr::kK]);
  std::vector<std::int64_t> order(width);
  for (std::size_t row = 0; row < in[0]->reals.size() / width; ++row) {
    const double* const x = in[0]->reals.data() + row * width;
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return is_larger(x[a], x[b]); });
    for (std::size_t i = 0; i < k; ++i) {
      out[0].reals[row * k + i] = x[order[i]];
      out[1].integers[row * k + i] = order[i];
    }
  }
}

/// Every element of a sum gets its gradient; of a mean, an equal part.
template <bool kIsMean>
std::vector<ValueId> derive_sum(Builder& builder, const Derivation& node) {
  const Shape shape = builder.shape(node.in[0]);
  ValueId made = node.gradient();
  if (kIsMean) {
    const double share = static_cast<double>(builder.shape(made).numel()) / static_cast<double>(shape.numel());
    made = builder.mul_scalar(made, share);
  }
  return {builder.broadcast(with_shape(builder, made, with_ones(shape, node.attributes[attr::kAxes])), shape)};
}

/// Elements that equal the extreme share its gradient evenly.
std::vector<ValueId> derive_extreme(Builder& builder, const Derivation& node) {
  const Ints& axes = node.attributes[attr::kAxes];
  const TensorType type = builder.graph().type(node.in[0]);
  const DType working = summing_dtype(type.dtype);
  const Shape kept = with_ones(type.shape, axes);
  const ValueId extreme = with_shape(builder, node.out[0], kept);
  const ValueId made = with_shape(builder, builder.cast(node.gradient(), working), kept);
  const ValueId is_extreme = builder.cast(builder.equal(node.in[0], extreme), working);
  const ValueId count = with_shape(builder, builder.sum(is_extreme, axes), kept);
  return {builder.cast(builder.mul(is_extreme, builder.div(made, count)), type.dtype)};
}

/// The chosen elements get the gradients of the values.
std::vector<ValueId> derive_topk(Builder& builder, const Derivation& node) {
  const TensorType type = builder.graph().type(node.in[0]);  // [..., d]
  const std::int64_t width = type.shape[-1];
  Shape chosen = builder.shape(node.out[1]);  // [..., k, 1]
  chosen.push_back(1);
  std::vector<double> columns;
  for (std::int64_t i = 0; i < width; ++i) columns.push_back(static_cast<double>(i));
  const ValueId column = builder.constant(std::move(columns), Shape{width}, DType::kI32);
  const ValueId is_there = builder.equal(with_shape(builder, node.out[1], chosen), column);  // [..., k, d]
  const ValueId made = with_shape(builder, node.gradient(), chosen);
  const ValueId spread = builder.where(is_there, made, builder.constant({0}, Shape{}, type.dtype));
  return {builder.sum(spread, {chosen.rank() - 2})};
}

bool reduces_no_samples(const Attributes& attributes) { return attributes[attr::kAxes].front() > 0; }

Attributes axes_under(const Attributes& attributes, std::int64_t /*extent*/) {
  std::vector<std::int64_t> axes = attributes[attr::kAxes];
  for (std::int64_t& axis : axes) ++axis;
  return attributes.with(attr::kAxes, std::move(axes));
}

/// Rows, columns and both. One element, fewer than a vector, a warp's and a block's results, more columns than a block
/// or a run takes, and more than f32 adds up.
void axes_cases(CaseList& list) {
  struct Reduced {
    Shape shape;
    Ints axes;
  };
  const DType dtype = list.types().data;
  for (const auto& [shape, axes] : {Reduced{{1, 1}, {1}},
                                    {{1, 1}, {0, 1}},
                                    {{5, 7}, {0}},
                                    {{5, 7}, {1}},
                                    {{3, 9, 37}, {1}},
                                    {{3, 9, 37}, {0, 1, 2}},
                                    {{2, 3, 5, 7}, {2, 3}},
                                    {{2, 3, 5, 7}, {0, 2}},
                                    {{2, 3, 5, 7}, {0, 1, 2, 3}},
                                    {{3, 70, 33}, {1}},
                                    {{2, 200, 300}, {1}},
                                    {{3, 30, 17, 31}, {2, 3}},
                                    {{3, 30, 17, 31}, {1, 3}},
                                    {{2, 4099}, {1}}}) {
    OpCase& added =
        list.add(fmt::format("{} over {}", shape, fmt::join(axes, ", ")), {list.data(shape)}, {{attr::kAxes, axes}});
    if (list.op() == Op::kAmax || list.op() == Op::kAmin) {
      added.tolerance = kExactly;
      continue;
    }
    added.tolerance = dtype == DType::kF32 ? Tolerance{.relative_l2 = 2e-5, .max_ulps_of_peak = 200}
                                           : Tolerance{.relative_l2 = 0.004};
    // A sum of normals may be near 0. Its error grows with the sums before it, as a random walk does.
    const double count = static_cast<double>(shape.numel()) / static_cast<double>(added.spec.outputs[0].shape.numel());
    added.tolerance.absolute = 0x1p-23 * (list.op() == Op::kMean ? 1 / std::sqrt(count) : std::sqrt(count));
  }
}

void argmax_cases(CaseList& list) {
  for (const std::int64_t axis : {0, 1, 2})
    list.add(fmt::format("along axis {}", axis), {list.data({3, 9, 37})}, {{attr::kAxis, axis}});
}

void topk_cases(CaseList& list) { list.add("4 of 37", {list.data({5, 37})}, {{attr::kK, 4}}); }

constexpr OpDefinition over_axes(Op op, decltype(OpDefinition::evaluate) evaluate,
                                 decltype(OpDefinition::derive) derive) {
  return {.op = op,
          .infer = reduced_types,
          .evaluate = evaluate,
          .derive = derive,
          .flops = for_each_input<1>,
          .samples = Samples::kBatched,
          .keeps_samples = reduces_no_samples,
          .under_axis = axes_under,
          .goes_along_rows = true,
          .cases = axes_cases};
}

constexpr std::array kReductions = {
    over_axes(Op::kSum, sum, derive_sum<false>),
    over_axes(Op::kMean, mean, derive_sum<true>),
    over_axes(Op::kAmax, amax, derive_extreme),
    over_axes(Op::kAmin, amin, derive_extreme),
    OpDefinition{.op = Op::kArgmax,
                 .infer = argmax_types,
                 .evaluate = argmax,
                 .no_derivative = "makes indices",
                 .flops = for_each_input<1>,
                 .samples = Samples::kBatched,
                 .keeps_samples = is_along_inner_axis,
                 .under_axis = next_axis,
                 .cases = argmax_cases},
    OpDefinition{.op = Op::kTopk,
                 .infer = topk_types,
                 .evaluate = topk,
                 .derive = derive_topk,
                 .flops = for_each_input<1>,
                 .samples = Samples::kBatched,
                 .inner_axes = 1,
                 .narrow_results = 1,
                 .cases = topk_cases},
};

}  // namespace

std::span<const OpDefinition> reductions() { return kReductions; }

}  // namespace headroom::ops
