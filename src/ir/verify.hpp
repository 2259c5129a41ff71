#pragma once

#include "ir/graph.hpp"

namespace headroom {

/// Checks every invariant of a graph. Each value is defined once and before its uses, in its region or an enclosing
/// one. Result types equal those of infer(), except for the layout of views and rows. Inputs and outputs are
/// row-major. Arities and attributes match ops.def. Regions are contiguous and nested. State updates keep their type.
/// Throws std::logic_error naming the node (by path) and the violated rule.
void verify(const Graph& graph);

}  // namespace headroom
