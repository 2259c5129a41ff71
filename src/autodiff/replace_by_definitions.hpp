#pragma once

#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// Replaces fused nodes by the plain ops that define them: those for which `replaces`, indexed like graph.nodes(), is
/// true. The results keep their ids, so that nobody who holds one notices.
void replace_by_definitions(Graph& graph, const std::vector<bool>& replaces);

}  // namespace headroom
