#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "ir/ops/attention.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// An attention op and the layout of its operands, to which kernels are bound. Offsets and strides are in elements.
struct AttentionProblem {
  /// Strides of [batch, heads, tokens, head_dim], the last of which is 1; 0 along shared axes.
  struct Strides {
    std::int64_t batch = 0, head = 0, token = 0;
    std::int64_t sharers = 1;  ///< query heads that follow each other and read one head of it
  };
  /// The operand that is added to the scores, or that masks them.
  enum class Bias : std::uint8_t { kNone, kAdded, kMask };

  std::int64_t batch = 0, heads = 0;
  std::int64_t queries = 0, keys = 0;       ///< s and t
  std::int64_t key_dim = 0, value_dim = 0;  ///< d and e
  Strides q, k, v, out;
  Bias bias = Bias::kNone;
  Strides bias_strides = {};  ///< of [batch, heads, queries, keys]
  std::int64_t diagonal = 0;  ///< query i sees keys 0..i + diagonal; from -queries to keys - 1, as diagonal_of() has it
  bool has_logsumexp = false;
  Strides logsumexp = {};  ///< of [batch, heads, queries]: the last is 1, and `token` as well
  double scale = 1;
  DType dtype = DType::kF32;

  /// Whether some query does not see some key because of its place.
  [[nodiscard]] bool is_causal() const { return diagonal < keys - 1; }
  /// Whether there may be a query that sees no key.
  [[nodiscard]] bool may_see_none() const { return bias != Bias::kNone || diagonal < 0; }
  /// The offset of query head `index` (of batch * heads).
  [[nodiscard]] std::int64_t head_offset(const Strides& strides, std::int64_t index) const {
    return index / heads * strides.batch + index % heads / strides.sharers * strides.head;
  }
};

[[nodiscard]] inline AttentionProblem attention_problem(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs) {
  const auto at = [&](Role role) -> const Operand& { return inputs[position_of(Op::kAttention, role)]; };
  const Shape& q = at(Role::kQ).type.shape;  // [b, h, s, d]
  const Shape& v = at(Role::kV).type.shape;  // [b, g, t, e]
  const auto strides_of = [&](const Operand& operand) {
    const Shape &shape = operand.type.shape, &strides = operand.strides;
    HR_CHECK(shape[-1] == 1 || strides[-1] == 1);
    return AttentionProblem::Strides{strides[0], strides[1], strides[2], q[1] / shape[1]};
  };
  AttentionProblem problem{.batch = q[0],
                           .heads = q[1],
                           .queries = q[2],
                           .keys = v[2],
                           .key_dim = q[3],
                           .value_dim = v[3],
                           .q = strides_of(at(Role::kQ)),
                           .k = strides_of(at(Role::kK)),
                           .v = strides_of(at(Role::kV)),
                           .out = strides_of(outputs[0]),
                           .diagonal = diagonal_of(spec.attributes, q[2], v[2]),
                           .has_logsumexp = outputs.size() == 2,
                           .scale = spec.attributes[attr::kScale],
                           .dtype = at(Role::kQ).type.dtype};
  if (spec.has(Role::kBias)) {
    const Operand& bias = at(Role::kBias);
    const auto step = [&](int axis) { return bias.type.shape[axis] == 1 ? 0 : bias.strides[axis]; };
    problem.bias = bias.type.dtype == DType::kBool ? AttentionProblem::Bias::kMask : AttentionProblem::Bias::kAdded;
    problem.bias_strides = {step(0), step(1), step(2)};
  }
  if (problem.has_logsumexp) problem.logsumexp = strides_of(outputs[1]);
  return problem;
}

/// Why a kernel for heads of up to `most_dim`, of keys or of values, cannot run an attention op of these types, if it
/// cannot.
[[nodiscard]] inline Support supports_attention(const OpSpec& spec, std::int64_t most_dim) {
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const TensorType& input = spec.inputs[i];
    if (input.layout != Layout::kRowMajor) return Rejection{"needs row-major operands"};
    if (input.shape.numel() == 0) return Rejection{"an operand has no elements"};
    if (i < 3 && input.shape[3] > most_dim)
      return Rejection{fmt::format("takes a head_dim of up to {}, not {}", most_dim, input.shape[3])};
  }
  return std::nullopt;
}

/// The same for a kernel that takes neither bias nor mask of the scores.
[[nodiscard]] inline Support supports_bare_scores(const OpSpec& spec) {
  if (spec.has(Role::kBias)) return Rejection{"takes no bias and no mask"};
  const std::int64_t queries = spec.input(Role::kQ).shape[2], keys = spec.input(Role::kK).shape[2];
  if (diagonal_of(spec.attributes, queries, keys) < keys - 1) return Rejection{"has every query see every key"};
  return std::nullopt;
}

/// The largest group of queries, a multiple of `unit` up to `most`, that one thread should take at a time: a key or
/// value that was packed serves all of a group, but the last round of groups should find work for every thread.
[[nodiscard]] inline std::int64_t group_queries(std::int64_t heads, std::int64_t queries, std::int64_t unit,
                                                std::int64_t most, int threads) {
  constexpr double kPacking = 8;  // packing a head's keys and values costs as much as attending with 8 queries
  std::int64_t best = unit;
  double least = 0;
  for (std::int64_t group = unit; group <= std::max(unit, most); group += unit) {
    const std::int64_t rounds = divide_up(heads * divide_up(queries, group), threads);
    const double cost = static_cast<double>(rounds) * (static_cast<double>(std::min(group, queries)) + kPacking);
    if (least == 0 || cost < least) {
      least = cost;
      best = group;
    }
  }
  return best;
}

}  // namespace headroom
