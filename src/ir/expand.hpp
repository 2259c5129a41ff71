#pragma once

#include <vector>

#include "ir/builder.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// Whether the node expands to several plain ops: its op is fused, or it has an epilogue.
[[nodiscard]] bool is_fused(Op op, const Attributes& attributes);

/// The definition of every fused op: emits through `builder` the plain ops of a fused node, on `inputs`, and returns
/// its results.
[[nodiscard]] std::vector<ValueId> expand_node(Builder& builder, Op op, const Attributes& attributes,
                                               std::span<const ValueId> inputs);

/// The body of a `fused` node: a graph with inputs, nodes and outputs only. It lives as long as the attributes or a
/// copy of them. Throws Error if the attribute holds anything else.
[[nodiscard]] const Graph& body_of(const Attributes& attributes);

/// Replaces fused nodes by the plain ops that define them: those for which `replaces`, indexed like graph.nodes(), is
/// true. The results keep their ids, so that nobody who holds one notices.
void replace_by_definitions(Graph& graph, const std::vector<bool>& replaces);

/// The graph with every fused node replaced by its definition.
[[nodiscard]] Graph expand(const Graph& graph);

}  // namespace headroom
