#pragma once

#include <span>
#include <vector>

#include "ir/builder.hpp"

namespace headroom {

/// Derivatives of any graph, in reverse mode. A gradient is a graph like any other: passes, plans and reports apply to
/// it as to the forward graph.
///
///     Graph graph = component.build(pass, shapes);               // or written with a Builder
///     Builder builder(graph);
///     const ValueId loss = ...;                                   // a scalar
///     const std::vector<ValueId> gradients = differentiate(builder, loss, weights);
///
/// From the loss back, each node between `wrt` and the loss gets the gradients of its results, and emits those of its
/// operands. There are three kinds of rules, and every op has one of them:
///
/// - its row in ir/ops/ has one (OpDefinition::derive), written with the ops of the table;
/// - it is an op of elementwise.def: its formula is evaluated on dual numbers that emit ops (autodiff/formula.hpp);
/// - it is a fused op: its definition is differentiated. The node is replaced by that definition, under the same
///   names of its results, so that nothing is computed twice; fusing passes come later.
///
/// Other rows say why they have no derivative (OpDefinition::no_derivative).
///
/// Appends to the builder's graph, in its region, nodes that compute the gradient of `loss`, a scalar of a
/// floating-point dtype, with respect to each value of `wrt`, which are floats of at least 16 bits: inputs, params,
/// states or results. Returns one value per entry, of its shape and dtype; zeros if the loss does not depend on it.
/// Sums of gradients are taken in f32 or wider. The path of a new node is that of the forward node, below "backward".
///
/// The nodes between `wrt` and the loss must be a straight line, in the builder's region or in regions around it.
/// Throws Error if they are in a loop or a branch, if one of their ops has no derivative, or if an image is not
/// row-major (derivatives come before the pass `channels-last`).
[[nodiscard]] std::vector<ValueId> differentiate(Builder& builder, ValueId loss, std::span<const ValueId> wrt);

}  // namespace headroom
