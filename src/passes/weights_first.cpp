// weights-first: x = ..., w = cast(param), linear(x, w)  ->  w = cast(param), x = ..., linear(x, w)
//
// Moves every node that depends on params and constants alone out of its loop and to the front of the schedule, keeping their
// order. Such nodes are folded once at load, so where they stand costs nothing; in front, a rewrite may read them
// from anywhere.

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
