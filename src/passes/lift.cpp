// How each op runs for all steps of a loop at once: given operands [steps, ...], what makes the result [steps, ...].
//
// An op without a rule is never lifted. That is so of the fused ops on token streams (norm_modulate, gate_residual,
// qk_norm_rope): they have as much to compute for all steps together as one after the other, and their results are as
// large as the activations of a step, for every step.

#include "passes/lift.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom {
namespace {

struct Site {
  const Graph& graph;
  const Node& node;
  std::span<const LiftOperand> operands;
  std::int64_t steps;
  const EmitLifted& emit;

  // Of a step. Copies, because emitting nodes moves what the graph holds.
  [[nodiscard]] Shape shape(std::size_t input) const { return graph.type(node.inputs[input]).shape; }
  [[nodiscard]] Shape result_shape() const { return graph.type(node.results[0]).shape; }
};

std::vector<std::int64_t> with_steps(const Site& site, const Shape& shape) {
  std::vector<std::int64_t> extents = {site.steps};
  extents.insert(extents.end(), shape.dims().begin(), shape.dims().end());
  return extents;
}

ValueId reshaped(const Site& site, ValueId value, std::vector<std::int64_t> extents) {
  return site.emit(Op::kReshape, {value}, Attributes(Op::kReshape, {{"shape", std::move(extents)}}));
}

ValueId same_op(const Site& site, Attributes attributes) {
  std::vector<ValueId> inputs;
  for (const LiftOperand& operand : site.operands) inputs.push_back(operand.value);
  return site.emit(site.node.op, std::move(inputs), std::move(attributes));
}

ValueId unchanged(const Site& site) { return same_op(site, site.node.attributes); }

bool all_lifted(const Site& site) { return std::ranges::all_of(site.operands, &LiftOperand::lifted); }

/// f(x[...]) that looks at the innermost axes alone: steps are one more axis outside.
ValueId lift_outer(const Site& site) { return all_lifted(site) ? unchanged(site) : kNoValue; }

/// f(x[...], constants...), likewise: linear with its weight and bias, rms_norm, rope with its tables.
ValueId lift_first(const Site& site) {
  return std::ranges::none_of(site.operands.subspan(1), &LiftOperand::lifted) ? unchanged(site) : kNoValue;
}

/// a + b, where the smaller broadcasts. A lifted operand of fewer axes gets axes of 1 behind the steps, so that it
/// meets the same axes as in a step. Refused where a constant operand is the larger one: lifted, it would be repeated
/// for every step, and sums over it are no fewer.
ValueId lift_binary(const Site& site) {
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

/// t[b] -> [b, dim], which takes one axis: [steps, b] as [steps * b].
ValueId lift_timestep_embedding(const Site& site) {
  const ValueId t = reshaped(site, site.operands[0].value, {site.steps * site.shape(0)[0]});
  return reshaped(site, site.emit(Op::kTimestepEmbedding, {t}, site.node.attributes),
                  with_steps(site, site.result_shape()));
}

ValueId lift_reshape(const Site& site) {
  return same_op(site, site.node.attributes.with("shape", with_steps(site, site.result_shape())));
}

ValueId lift_transpose(const Site& site) {
  std::vector<std::int64_t> perm = {0};
  for (const std::int64_t axis : site.node.attributes.get_ints("perm")) perm.push_back(axis + 1);
  return same_op(site, site.node.attributes.with("perm", std::move(perm)));
}

ValueId lift_slice(const Site& site) {
  return same_op(site, site.node.attributes.with("axis", site.node.attributes.get_int("axis") + 1));
}

/// Refused where a part is a constant: it would be repeated for every step.
ValueId lift_concat(const Site& site) { return all_lifted(site) ? lift_slice(site) : kNoValue; }

struct Rule {
  Op op;
  ValueId (*lift)(const Site& site);
};

constexpr std::array kRules = {
    Rule{Op::kAdd, lift_binary},
    Rule{Op::kSub, lift_binary},
    Rule{Op::kMul, lift_binary},
    Rule{Op::kAddScalar, lift_outer},
    Rule{Op::kMulScalar, lift_outer},
    Rule{Op::kRelu, lift_outer},
    Rule{Op::kSilu, lift_outer},
    Rule{Op::kGelu, lift_outer},
    Rule{Op::kCast, lift_outer},
    Rule{Op::kLinear, lift_first},
    Rule{Op::kMatmul, lift_outer},  // [batch..., m, k]: steps are one more batch axis, of both
    Rule{Op::kSoftmax, lift_outer},
    Rule{Op::kLayerNorm, lift_outer},
    Rule{Op::kRmsNorm, lift_first},
    Rule{Op::kRope, lift_first},
    Rule{Op::kTimestepEmbedding, lift_timestep_embedding},
    Rule{Op::kReshape, lift_reshape},
    Rule{Op::kTranspose, lift_transpose},
    Rule{Op::kConcat, lift_concat},
    Rule{Op::kSlice, lift_slice},
};

}  // namespace

ValueId lift(const Graph& graph, const Node& node, std::span<const LiftOperand> operands, std::int64_t steps,
             const EmitLifted& emit) {
  const auto* rule = std::ranges::find(kRules, node.op, &Rule::op);
  if (rule == kRules.end()) return kNoValue;
  const auto fits = [&](ValueId value) { return graph.type(value).shape.rank() < Shape::kMaxRank; };
  if (!std::ranges::all_of(node.inputs, fits) || !fits(node.results[0])) return kNoValue;
  return rule->lift({graph, node, operands, steps, emit});
}

}  // namespace headroom
