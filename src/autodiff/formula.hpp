#pragma once

#include <vector>

#include "ir/builder.hpp"
#include "ir/op_definition.hpp"

namespace headroom {

/// Whether the derivative of the op follows from its formula in elementwise.def.
[[nodiscard]] bool has_formula(Op op);

/// The gradients of the operands of a node of such an op, as OpDefinition::derive gives them. The formula is evaluated
/// once for each wanted operand, on numbers (value, derivative) whose arithmetic emits ops. So the derivatives that are
/// written by hand are those of + - * / and of the functions that formulas consist of.
///
/// Gradients in 16 bits are computed in f32 and rounded once, unless the derivative is an operand or a number.
[[nodiscard]] std::vector<ValueId> derive_formula(Builder& builder, Op op, const Derivation& node);

}  // namespace headroom
