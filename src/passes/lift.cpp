// Execution of a node for all steps of a loop at once: given operands [steps, ...], nodes that compute the result
// [steps, ...].
//
// Steps are one more leading axis, so the lifted op is the same op, if it accepts a leading axis, and never a
// different one. This excludes the fused ops on token streams (norm_modulate, gate_residual, qk_norm_rope): computing
// all steps together costs as much as one after the other, and their results are as large as the activations of a
// step, for every step.

#include "passes/lift.hpp"

#include <algorithm>
#include <utility>

#include "ir/op_definition.hpp"

namespace headroom {
namespace {

struct Site {
  const Graph& graph;
  const Node& node;
  std::span<const LiftOperand> operands;
  std::int64_t steps;
  const EmitLifted& emit;

  // The shape in one step. Returned by value, because emitting nodes may move the graph's data.
  [[nodiscard]] Shape shape(std::size_t input) const { return graph.type(node.inputs[input]).shape; }
  [[nodiscard]] Shape result_shape() const { return graph.type(node.results[0]).shape; }
};

std::vector<std::int64_t> with_steps(const Site& site, const Shape& shape) {
  std::vector<std::int64_t> extents = {site.steps};
  extents.insert(extents.end(), shape.dims().begin(), shape.dims().end());
  return extents;
}

ValueId reshaped(const Site& site, ValueId value, std::vector<std::int64_t> extents) {
  return site.emit(Op::kReshape, {value}, Attributes(Op::kReshape, {{attr::kShape, std::move(extents)}}));
}

ValueId same_op(const Site& site, Attributes attributes) {
  std::vector<ValueId> inputs;
  for (const LiftOperand& operand : site.operands) inputs.push_back(operand.value);
  return site.emit(site.node.op, std::move(inputs), std::move(attributes));
}

/// The op itself with batched operands that hold all steps and others that are the same in each: linear with its
/// weight and bias, rope with its tables. Not lifted are a matmul with one constant operand and a concat: the
/// constant would be repeated for every step.
ValueId lift_under_axis(const Site& site) {
  const OpDefinition& known = definition_of(site.node.op);
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    const bool is_own = i < site.node.own_operands();
    const bool by_step = (is_own && known.samples != Samples::kBatched) || is_batched_operand(site.graph, site.node, i);
    if (site.operands[i].lifted != by_step) return kNoValue;
  }
  if (known.under_axis != nullptr) return same_op(site, known.under_axis(site.node.attributes, site.steps));
  return known.inner_axes == OpDefinition::kFixedRank ? kNoValue : same_op(site, site.node.attributes);
}

/// a + b, where the smaller broadcasts. A lifted operand of fewer axes gets axes of extent 1 after the steps, so that
/// its axes align as in a step. Not lifted if a constant operand is the larger one: it would be repeated for every
/// step, and the number of additions would not decrease.
ValueId lift_broadcast(const Site& site) {
  const Shape result = site.result_shape();
  std::vector<ValueId> inputs;
  bool fills_result = false;
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    const auto [value, lifted] = site.operands[i];
    inputs.push_back(value);
    if (!lifted) continue;
    const Shape shape = site.shape(i);
    fills_result = fills_result || shape.numel() == result.numel();
    if (shape.rank() == result.rank()) continue;
    std::vector<std::int64_t> extents = {site.steps};
    extents.resize(static_cast<std::size_t>(1 + result.rank() - shape.rank()), 1);
    extents.insert(extents.end(), shape.dims().begin(), shape.dims().end());
    inputs.back() = reshaped(site, value, std::move(extents));
  }
  return fills_result ? site.emit(site.node.op, std::move(inputs), site.node.attributes) : kNoValue;
}

/// t[b] -> [b, dim], which accepts one axis: [steps, b] as [steps * b].
ValueId lift_timestep_embedding(const Site& site) {
  const ValueId t = reshaped(site, site.operands[0].value, {site.steps * site.shape(0)[0]});
  return reshaped(site, site.emit(Op::kTimestepEmbedding, {t}, site.node.attributes),
                  with_steps(site, site.result_shape()));
}

}  // namespace

ValueId lift(const Graph& graph, const Node& node, std::span<const LiftOperand> operands, std::int64_t steps,
             const EmitLifted& emit) {
  const auto fits = [&](ValueId value) { return graph.type(value).shape.rank() < Shape::kMaxRank; };
  if (!std::ranges::all_of(node.inputs, fits) || !fits(node.results[0])) return kNoValue;
  const Site site{graph, node, operands, steps, emit};
  if (node.op == Op::kTimestepEmbedding) return lift_timestep_embedding(site);
  const Samples samples = definition_of(node.op).samples;
  if (samples == Samples::kMixed) return kNoValue;
  return samples == Samples::kBroadcast ? lift_broadcast(site) : lift_under_axis(site);
}

}  // namespace headroom
