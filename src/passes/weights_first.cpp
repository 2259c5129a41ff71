// weights-first: x = ..., w = cast(param), linear(x, w)  ->  w = cast(param), x = ..., linear(x, w)
//
// Moves every node that depends only on params and constants out of its loop and to the start of the schedule,
// keeping their order. Such nodes are folded once at load, so their position costs nothing. At the start of the
// schedule they can be read by a rewrite at any position.

#include <algorithm>
#include <iterator>

#include "passes/pass.hpp"

namespace headroom {

PassOutcome weights_first(Graph& graph, const Target&) {
  const std::vector<bool> is_weight = find_weight_values(graph);
  std::vector<Node> weights;
  std::vector<Node> others;
  int moved = 0;
  for (Node& node : graph.take_nodes()) {
    if (!is_weight[index_of(node.results.front())]) {
      others.push_back(std::move(node));
      continue;
    }
    if (!others.empty() || node.region != kTopRegion) ++moved;
    node.region = kTopRegion;
    weights.push_back(std::move(node));
  }
  std::ranges::move(others, std::back_inserter(weights));
  graph.set_nodes(std::move(weights));
  return {.rewrites = moved};
}

}  // namespace headroom
