#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "plan/placement.hpp"

namespace headroom {

/// The first kernel of the target's list that supports each node, in schedule order, nodes that make weights left out.
/// Throws Error with every kernel's reason where none does.
[[nodiscard]] std::vector<ChosenKernel> choose_kernels(const Graph& graph, const std::vector<bool>& is_weight,
                                                       const Target& target);

}  // namespace headroom
