#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// One operation with the types of its operands and results: all that kernel choice looks at.
struct OpSpec {
  Op op = Op::kAdd;
  Attributes attributes;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  std::vector<bool> is_weight;  ///< for each input: a folded weight, constant over runs
  [[nodiscard]] bool has_weight_at(std::size_t input) const { return input < is_weight.size() && is_weight[input]; }
  /// How many of the inputs are operands of the op itself; those of its epilogue follow.
  [[nodiscard]] std::size_t own_operands() const { return inputs.size() - attributes.epilogue_operands(); }
  /// Whether it was given the operand with that role, which the op must have.
  [[nodiscard]] bool has(Role role) const { return position_of(op, role) < own_operands(); }
  /// The type of the operand with that role, which it must have been given.
  [[nodiscard]] const TensorType& input(Role role) const { return inputs.at(position_of(op, role)); }
  friend bool operator==(const OpSpec&, const OpSpec&) = default;
};

/// Result types of `op` on inputs of these types. Throws Error that names the op and the shapes if they do not fit.
[[nodiscard]] std::vector<TensorType> infer(Op op, const Attributes& attributes, std::span<const TensorType> inputs);

/// The spec with the output types that its op infers. `is_weight` may be shorter than `inputs`.
[[nodiscard]] OpSpec make_spec(Op op, std::vector<TensorType> inputs, NamedAttributes attributes = {},
                               std::vector<bool> is_weight = {});

/// The shape that two operands broadcast to, as in NumPy. Throws Error if they do not.
[[nodiscard]] Shape broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace headroom
