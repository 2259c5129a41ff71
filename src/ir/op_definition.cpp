#include "ir/op_definition.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"

namespace headroom {

void TypeQuery::require(bool holds, std::string_view expectation) const {
  if (holds) return;
  fail("{}: expected {}, but was given {}", name_of(op), expectation, fmt::join(in, ", "));
}

double Flops::count(const Attributes& attributes, Types in, Types out) const {
  if (rule_ != nullptr) return rule_(attributes, in, out);
  double results = 0;
  for (const TensorType& result : out) results += static_cast<double>(result.shape.numel());
  return each_ * results;
}

const OpDefinition& definition_of(Op op) {
  static const std::vector<OpDefinition> table = [] {
    std::vector<OpDefinition> rows;
    for (const auto family : {ops::elementwise, ops::matmuls, ops::attention, ops::losses, ops::values, ops::norms,
                              ops::positions, ops::movements, ops::indexing, ops::collectives, ops::reductions,
                              ops::convolutions, ops::sampling, ops::transformers, ops::fused, ops::packed_weights})
      rows.insert(rows.end(), family().begin(), family().end());
    std::ranges::sort(rows, {}, &OpDefinition::op);
    for (const OpSchema& schema : all_ops()) {
      const auto found = std::ranges::equal_range(rows, schema.op, {}, &OpDefinition::op);
      if (found.size() != 1) throw std::logic_error(fmt::format("{} has {} definitions", schema.name, found.size()));
    }
    return rows;
  }();
  return table[static_cast<std::size_t>(op)];
}

bool is_batched_operand(const Graph& graph, const Node& node, std::size_t index) {
  if (index < node.own_operands()) return schema_of(node.op).operands.at(index).batched;
  return graph.type(node.inputs[index]).shape == graph.type(node.results[0]).shape;
}

std::optional<std::vector<bool>> operands_by_sample(const Graph& graph, const Node& node, std::int64_t samples) {
  const auto has_samples = [&](ValueId v) {
    const Shape& shape = graph.type(v).shape;
    return shape.rank() > 0 && shape[0] == samples;
  };
  const OpDefinition& known = definition_of(node.op);
  const Samples kind = known.samples;
  const bool has_outer_axis = known.inner_axes <= 0 || graph.type(node.inputs[0]).shape.rank() > known.inner_axes;
  const bool holds = has_outer_axis && (known.keeps_samples == nullptr || known.keeps_samples(node.attributes));
  if (kind == Samples::kMixed || !holds || !std::ranges::all_of(node.results, has_samples)) return std::nullopt;

  std::vector<bool> by_sample(node.inputs.size(), false);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const Shape& shape = graph.type(node.inputs[k]).shape;
    if (kind == Samples::kBatched || k >= node.own_operands()) {
      by_sample[k] = is_batched_operand(graph, node, k);
    } else {
      const bool aligned = kind == Samples::kEvery || shape.rank() == graph.type(node.results[0]).shape.rank();
      by_sample[k] = aligned && shape.rank() > 0 && shape[0] != 1;
    }
    if (by_sample[k] && !has_samples(node.inputs[k])) return std::nullopt;
  }
  return by_sample;
}

namespace ops {

bool is_vector_dtype(DType vector, DType x) { return vector == x || (vector == DType::kF32 && is_float(x)); }

bool are_rope_tables(const TensorType& cos, const TensorType& sin, std::int64_t seq, std::int64_t head_dim) {
  const TensorType wanted{DType::kF32, Shape{seq, head_dim / 2}};
  return head_dim % 2 == 0 && cos == wanted && sin == wanted;
}

std::vector<TensorType> quantized_types(Op op, DType dtype, const TensorType& x) {
  if (dtype != DType::kI8 && dtype != DType::kF8E4M3)
    fail("{}: dtype must be i8 or f8e4m3, but was given {}", name_of(op), dtype);
  return {{dtype, x.shape}, {DType::kF32, Shape(x.shape.dims().first(x.shape.dims().size() - 1))}};
}

int axis_of(const TypeQuery& query) {
  const std::int64_t axis = query.attributes[attr::kAxis];
  if (axis < 0 || axis >= query.in[0].shape.rank()) {
    fail("{}: axis must be in 0..{} for {}, but was given {}", name_of(query.op), query.in[0].shape.rank() - 1,
         query.in[0], axis);
  }
  return static_cast<int>(axis);
}

double round_to(DType dtype, double value) {
  std::uint64_t bits = 0;  // large enough for the widest element
  store_from_double(&bits, dtype, value);
  return load_as_double(&bits, dtype);
}

bool is_index(const TensorType& type) { return type.dtype == DType::kI32 || type.dtype == DType::kI64; }

std::size_t extent(const OracleTensor& x, int axis) { return static_cast<std::size_t>(x.type.shape[axis]); }

/// Independent partial sums hide the latency of the additions, and round less than one long sum.
double dot(const double* a, const double* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  double tail = 0;
  for (; i < count; ++i) tail += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), tail);
}

void require_row_epilogue(const TypeQuery& given, const TensorType& made) {
  const Shape columns{made.shape[-1]};
  for (const TensorType& operand : given.in.last(given.attributes.epilogue_operands()))
    given.require(operand.dtype == made.dtype && (operand.shape == made.shape || operand.shape == columns),
                  "operands of the epilogue of the result's type, or [n] in its dtype");
}

void require_image_epilogue(const TypeQuery& given, const TensorType& made) {
  for (const TensorType& operand : given.in.last(given.attributes.epilogue_operands()))
    given.require(operand == made, "operands of the epilogue of the result's shape, dtype and layout");
}

ValueId ended(Builder& builder, const Attributes& attributes, ValueId sum, std::span<const ValueId> operands) {
  std::vector<ValueId> own;
  for (const ValueId operand : operands.last(attributes.epilogue_operands()))
    own.push_back(builder.cast(operand, builder.dtype(sum)));
  const auto emit = [&](Op op, std::span<const ValueId> args) {
    return builder.emit(op, {args.begin(), args.end()})[0];
  };
  return attributes[attr::kEpilogue].evaluate(sum, std::span<const ValueId>(own), emit);
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

bool is_along_inner_axis(const Attributes& attributes) { return attributes[attr::kAxis] > 0; }

Attributes next_axis(const Attributes& attributes, std::int64_t /*extent*/) {
  return attributes.with(attr::kAxis, attributes[attr::kAxis] + 1);
}

}  // namespace ops
}  // namespace headroom
