#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/divide_up.hpp"
#include "base/error.hpp"
#include "kernels/kernel.hpp"

namespace headroom {

/// The largest head_dim, of keys or of values, that the attention kernels take.
inline constexpr std::int64_t kMaxHeadDim = 256;

/// An attention op with how its operands lie: what its kernels are bound to. Offsets and strides are in elements.
struct AttentionProblem {
  /// Strides of [batch, heads, tokens, head_dim], the last of which is 1.
  struct Strides {
    std::int64_t batch = 0, head = 0, token = 0;
  };

  std::int64_t batch = 0, heads = 0;
  std::int64_t queries = 0, keys = 0;       ///< s and t
  std::int64_t key_dim = 0, value_dim = 0;  ///< d and e
  Strides q, k, v, out;
  double scale = 1;
  DType dtype = DType::kF32;

  /// Where head `index` (of batch * heads) starts.
  [[nodiscard]] std::int64_t head_offset(const Strides& strides, std::int64_t index) const {
    return index / heads * strides.batch + index % heads * strides.head;
  }
};

[[nodiscard]] inline AttentionProblem attention_problem(const OpSpec& spec, std::span<const Operand> inputs,
                                                        const Operand& output) {
  const auto strides_of = [](const Operand& operand) {
    const Shape& strides = operand.strides;
    HR_CHECK(operand.type.shape[3] == 1 || strides[3] == 1);
    return AttentionProblem::Strides{strides[0], strides[1], strides[2]};
  };
  const Shape& q = inputs[0].type.shape;  // [b, h, s, d]
  const Shape& v = inputs[2].type.shape;  // [b, h, t, e]
  return {.batch = q[0],
          .heads = q[1],
          .queries = q[2],
          .keys = v[2],
          .key_dim = q[3],
          .value_dim = v[3],
          .q = strides_of(inputs[0]),
          .k = strides_of(inputs[1]),
          .v = strides_of(inputs[2]),
          .out = strides_of(output),
          .scale = spec.attributes.get_float("scale"),
          .dtype = inputs[0].type.dtype};
}

/// Why the kernels here cannot run an attention op of these types, if they cannot.
[[nodiscard]] inline Support supports_attention(const OpSpec& spec) {
  for (const TensorType& input : spec.inputs) {
    if (input.layout != Layout::kRowMajor) return Rejection{"needs row-major operands"};
    if (input.shape.numel() == 0) return Rejection{"an operand has no elements"};
    if (input.shape[3] > kMaxHeadDim)
      return Rejection{fmt::format("takes a head_dim of up to {}, not {}", kMaxHeadDim, input.shape[3])};
  }
  return std::nullopt;
}

/// The largest group of queries, a multiple of `unit` up to `most`, that one thread should take at a time: a key or
/// value that was packed serves all of a group, but the last round of groups should find work for every thread.
[[nodiscard]] inline std::int64_t group_queries(std::int64_t heads, std::int64_t queries, std::int64_t unit,
                                                std::int64_t most, int threads) {
  constexpr double kPacking = 8;  // packing a head's keys and values costs as much as attending with so many queries
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
