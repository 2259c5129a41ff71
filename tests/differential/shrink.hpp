#pragma once

#include <utility>

#include "differential/check.hpp"

namespace headroom::differential {

/// The smallest graph found that fails under the same passes and plan, and how it fails: outputs, updates, nodes and
/// regions are left out, and extents made smaller, as long as it does. Verified all along.
[[nodiscard]] std::pair<Graph, Failure> shrink(Checker& checker, const Graph& graph, const CheckOptions& options,
                                               const Failure& failure);

}  // namespace headroom::differential
