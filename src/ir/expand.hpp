#pragma once

#include <vector>

#include "ir/builder.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// Whether the node stands for several plain ops: its op is fused, or it is a linear with an activation.
[[nodiscard]] bool is_fused(Op op, const Attributes& attributes);

/// Emits through `builder` the plain ops that a fused node stands for, on `inputs`, and returns its results: the
/// definition of every fused op.
[[nodiscard]] std::vector<ValueId> expand_node(Builder& builder, Op op, const Attributes& attributes,
                                               std::span<const ValueId> inputs);

/// The body that a `fused` node's attributes hold: inputs, nodes and outputs. It lives as long as they or
/// a copy of them. Throws Error where it is anything else.
[[nodiscard]] const Graph& body_of(const Attributes& attributes);

/// The graph with every fused node replaced by its definition.
[[nodiscard]] Graph expand(const Graph& graph);

}  // namespace headroom
