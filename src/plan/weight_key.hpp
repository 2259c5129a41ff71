#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// The expression over params that a weight value stands for, as text: "cast(x.weight){dtype=f32}". Equal keys mean
/// equal values, in any graph over the same checkpoint. `producers` is find_producers(graph).
[[nodiscard]] std::string weight_key(const Graph& graph, const std::vector<int>& producers, ValueId value);

/// The subgraph that makes weights, as a graph of its own: params become inputs of the same names; its outputs are "0",
/// "1", ... in the order of `values`. What several of them need is in it once.
[[nodiscard]] Graph weight_graph(const Graph& graph, const std::vector<int>& producers,
                                 std::span<const ValueId> values);

}  // namespace headroom
