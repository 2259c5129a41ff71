#pragma once

#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// The expression over params that a weight value stands for, as text: "cast(x.weight){dtype=f32}". Equal keys mean
/// equal values, in any graph over the same checkpoint. `producers` is find_producers(graph).
[[nodiscard]] std::string weight_key(const Graph& graph, const std::vector<int>& producers, ValueId value);

/// The subgraph that makes one weight, as a graph of its own: params become inputs of the same names; its one output is
/// "weight".
[[nodiscard]] Graph weight_graph(const Graph& graph, const std::vector<int>& producers, ValueId value);

}  // namespace headroom
