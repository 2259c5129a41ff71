#pragma once

#include "ir/graph.hpp"

namespace headroom {

/// Checks every invariant of a graph: each value is defined once and before its uses, in its region or one around it;
/// result types are those infer() gives, but for the layout of views and rows; what callers give and get is row-major;
/// arities and attributes match ops.def; regions are contiguous and nested; state updates keep their type. Throws
/// std::logic_error naming the node (by path) and the broken rule.
void verify(const Graph& graph);

}  // namespace headroom
