#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Positions and time.

namespace headroom::ops {
namespace {

std::vector<TensorType> rope_table_types(const TypeQuery& given) {
  const std::vector<std::int64_t>& axes = given.attributes[attr::kAxes];
  const bool even = std::ranges::all_of(axes, [](std::int64_t extent) { return extent > 0 && extent % 2 == 0; });
  given.require(even && !axes.empty(), "axes that are positive and even");
  given.require(given.attributes[attr::kTheta] > 0, "a positive theta");
  given.require(given.in[0].dtype != DType::kBool && given.in[0].shape.rank() == 2 &&
                    given.in[0].shape[1] == static_cast<std::int64_t>(axes.size()),
                "ids[s, axes] with a column for each axis");
  const std::int64_t head_dim = std::accumulate(axes.begin(), axes.end(), std::int64_t{0});
  return {2, TensorType{DType::kF32, Shape{given.in[0].shape[0], head_dim / 2}}};
}

std::vector<TensorType> rope_types(const TypeQuery& given) {
  const TensorType& x = given.in[0];
  given.require(
      is_float(x.dtype) && x.shape.rank() >= 2 && are_rope_tables(given.in[1], given.in[2], x.shape[-2], x.shape[-1]),
      "x[..., s, d] of a floating-point dtype with f32 cos[s, d/2] and sin[s, d/2]");
  return {x};
}

std::vector<TensorType> timestep_embedding_types(const TypeQuery& given) {
  const std::int64_t dim = given.attributes[attr::kDim];
  given.require(given.in[0].shape.rank() == 1 && given.in[0].dtype != DType::kBool, "t[b]");
  given.require(dim > 0 && dim % 2 == 0, "a positive even dim");
  given.require(given.attributes[attr::kMaxPeriod] > 0, "a positive max_period");
  return {{DType::kF32, Shape{given.in[0].shape[0], dim}}};
}

void rope_table(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& ids = *in[0];
  const std::vector<std::int64_t>& axes = attributes[attr::kAxes];
  const double theta = attributes[attr::kTheta];
  const std::size_t positions = extent(ids, 0);
  std::size_t column = 0;
  for (std::size_t position = 0; position < positions; ++position) {
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const std::size_t source = position * axes.size() + axis;
      const double id = ids.reals.empty() ? static_cast<double>(ids.integers[source]) : ids.reals[source];
      for (std::int64_t i = 0; i < axes[axis] / 2; ++i, ++column) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(axes[axis]);
        const double angle = id * std::pow(theta, exponent);
        out[0].reals[column] = std::cos(angle);
        out[1].reals[column] = std::sin(angle);
      }
    }
  }
}

void rope(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const std::size_t table_size = in[1]->reals.size();  // [s, d/2]; repeats over the axes before s
  for (std::size_t pair = 0; pair < x.reals.size() / 2; ++pair) {
    const double cos = in[1]->reals[pair % table_size];
    const double sin = in[2]->reals[pair % table_size];
    const double even = x.reals[2 * pair];
    const double odd = x.reals[2 * pair + 1];
    out[0].reals[2 * pair] = even * cos - odd * sin;
    out[0].reals[2 * pair + 1] = odd * cos + even * sin;
  }
}

void timestep_embedding(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& t = *in[0];
  const double scale = attributes[attr::kScale];
  const double max_period = attributes[attr::kMaxPeriod];
  const auto half = static_cast<std::size_t>(attributes[attr::kDim] / 2);
  for (std::size_t b = 0; b < extent(t, 0); ++b) {
    const double time = t.reals.empty() ? static_cast<double>(t.integers[b]) : t.reals[b];
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = scale * time * std::pow(max_period, -static_cast<double>(i) / static_cast<double>(half));
      out[0].reals[b * 2 * half + i] = std::cos(angle);
      out[0].reals[b * 2 * half + half + i] = std::sin(angle);
    }
  }
}

/// The gradient of positions from that of the angles position * base^(-i / count), i = 0..count-1: [rows, count] ->
/// [rows]. The powers are computed by ops, since a constant in f32 would round them.
ValueId derive_angles(Builder& builder, ValueId made, double base) {
  const std::int64_t count = builder.shape(made)[1];
  std::vector<double> steps;
  for (std::int64_t i = 0; i < count; ++i) steps.push_back(static_cast<double>(i));
  const ValueId exponents = builder.mul_scalar(builder.constant(std::move(steps), Shape{count}),
                                               -std::log(base) / static_cast<double>(count));
  return builder.sum(builder.mul(made, builder.exp(exponents)), {1});
}

/// The gradient of angles from those of their cosines and sines, any of which may be missing.
ValueId derive_turns(Builder& builder, ValueId cos, ValueId sin, ValueId of_cos, ValueId of_sin) {
  const ValueId across = of_cos == kNoValue ? kNoValue : builder.neg(builder.mul(of_cos, sin));
  if (of_sin == kNoValue) return across;
  const ValueId along = builder.mul(of_sin, cos);
  return across == kNoValue ? along : builder.add(across, along);
}

std::vector<ValueId> derive_rope_table(Builder& builder, const Derivation& node) {
  const ValueId angles = derive_turns(builder, node.out[0], node.out[1], node.gradients[0], node.gradients[1]);
  const std::vector<std::int64_t>& axes = node.attributes[attr::kAxes];
  std::vector<ValueId> columns;
  std::int64_t start = 0;
  for (const std::int64_t extent : axes) {
    const ValueId of_axis = builder.slice(angles, 1, start, extent / 2);
    columns.push_back(builder.reshape(derive_angles(builder, of_axis, node.attributes[attr::kTheta]), {-1, 1}));
    start += extent / 2;
  }
  return {builder.cast(builder.concat(std::move(columns), 1), builder.dtype(node.in[0]))};  // [s, axes]
}

/// Rotates by the negated angles. The gradients of the tables are sums over all that they rotate.
std::vector<ValueId> derive_rope(Builder& builder, const Derivation& node) {
  const auto [x, cos, sin] = std::array{node.in[0], node.in[1], node.in[2]};
  std::vector<ValueId> gradients(3, kNoValue);
  if (node.wanted[0]) gradients[0] = builder.rope(node.gradient(), cos, builder.neg(sin));
  if (!node.wanted[1] && !node.wanted[2]) return gradients;
  Shape halves = builder.shape(x);  // [..., s, d/2]
  halves.set(-1, halves[-1] / 2);
  Shape pairs = halves;  // [..., s, d/2, 2]
  pairs.push_back(2);
  const auto half = [&](ValueId from, std::int64_t which) {
    const ValueId split = builder.reshape(builder.cast(from, DType::kF32), {pairs.dims().begin(), pairs.dims().end()});
    return with_shape(builder, builder.slice(split, pairs.rank() - 1, which, 1), halves);
  };
  const ValueId even = half(x, 0), odd = half(x, 1);
  const ValueId of_even = half(node.gradient(), 0), of_odd = half(node.gradient(), 1);
  if (node.wanted[1])
    gradients[1] =
        sum_to(builder, builder.add(builder.mul(of_even, even), builder.mul(of_odd, odd)), builder.graph().type(cos));
  if (node.wanted[2])
    gradients[2] =
        sum_to(builder, builder.sub(builder.mul(of_odd, even), builder.mul(of_even, odd)), builder.graph().type(sin));
  return gradients;
}

std::vector<ValueId> derive_timestep_embedding(Builder& builder, const Derivation& node) {
  const std::int64_t half = node.attributes[attr::kDim] / 2;
  const auto columns = [&](ValueId from, std::int64_t which) { return builder.slice(from, 1, which * half, half); };
  const ValueId angles = derive_turns(builder, columns(node.out[0], 0), columns(node.out[0], 1),
                                      columns(node.gradient(), 0), columns(node.gradient(), 1));
  const ValueId gradient = derive_angles(builder, angles, node.attributes[attr::kMaxPeriod]);
  return {builder.cast(builder.mul_scalar(gradient, node.attributes[attr::kScale]), builder.dtype(node.in[0]))};
}

void rope_table_cases(CaseList& list) {
  list.add("two axes", {list.data({5, 2})}, {{attr::kAxes, std::vector<std::int64_t>{8, 8}}});
}

void rope_cases(CaseList& list) {
  const TensorType table{DType::kF32, {5, 16}};
  list.add("heads of 32", {list.data({2, 3, 5, 32}), table, table});
}

void timestep_embedding_cases(CaseList& list) { list.add("three times", {list.data({3})}, {{attr::kDim, 32}}); }

void large_rope_cases(CaseList& list) {
  constexpr std::int64_t kDim = kLargeWidth / kLargeHeads;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::int64_t rows = large_rows(size_of(dtype));
    const TensorType table{DType::kF32, {rows, kDim / 2}};
    list.add(fmt::format("rope {}", name_of(dtype)), {{dtype, {1, kLargeHeads, rows, kDim}}, table, table});
  }
}

constexpr std::array kPositions = {
    OpDefinition{.op = Op::kRopeTable,
                 .infer = rope_table_types,
                 .evaluate = rope_table,
                 .derive = derive_rope_table,
                 .flops = 2.0,
                 .stays_f32 = true,
                 .cases = rope_table_cases,
                 .takes_integers = true},
    OpDefinition{.op = Op::kRope,
                 .infer = rope_types,
                 .evaluate = rope,
                 .derive = derive_rope,
                 .flops = 3.0,
                 .samples = Samples::kBatched,
                 .inner_axes = 2,
                 .goes_along_rows = true,
                 .cases = rope_cases,
                 .benchmarks = large_rope_cases},
    OpDefinition{.op = Op::kTimestepEmbedding,
                 .infer = timestep_embedding_types,
                 .evaluate = timestep_embedding,
                 .derive = derive_timestep_embedding,
                 .flops = 2.0,
                 .samples = Samples::kBatched,
                 .stays_f32 = true,
                 .cases = timestep_embedding_cases,
                 .takes_integers = true},
};

}  // namespace

std::span<const OpDefinition> positions() { return kPositions; }

}  // namespace headroom::ops
