#pragma once

#include <vector>

#include "ir/builder.hpp"

namespace headroom {

/// Appends the nodes of another graph, a straight line, in the builder's region and below its path. `values`, indexed
/// by value of `graph`, holds the values of its inputs, params and states here. Returns those of its outputs.
[[nodiscard]] std::vector<ValueId> append_graph(Builder& builder, const Graph& graph, std::vector<ValueId> values);

}  // namespace headroom
