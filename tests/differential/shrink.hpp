#pragma once

#include <utility>

#include "differential/check.hpp"

namespace headroom::differential {

/// The smallest graph found that fails under the same passes and plan, and its failure. Outputs, updates, nodes and
/// regions are removed and extents reduced while the graph still fails. Each graph is verified.
[[nodiscard]] std::pair<Graph, Failure> shrink(Checker& checker, const Graph& graph, const CheckOptions& options,
                                               const Failure& failure);

}  // namespace headroom::differential
