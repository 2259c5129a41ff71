// dead-code: y = silu(x), output x  ->  output x
//
// Drops nodes whose results reach no output and no state's next value.

#include <algorithm>

#include "passes/pass.hpp"

namespace headroom {

PassOutcome dead_code(Graph& graph, const Target&) {
  std::vector<bool> is_read(graph.value_count(), false);
  for (const Output& output : graph.outputs()) is_read[index_of(output.value)] = true;
  for (const StateUpdate& update : graph.state_updates()) is_read[index_of(update.next)] = true;

  std::vector<Node> nodes = graph.take_nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const bool live = std::ranges::any_of(node->results, [&](ValueId result) { return is_read[index_of(result)]; });
    if (!live) continue;
    for (const ValueId input : node->inputs) is_read[index_of(input)] = true;
  }
  const auto dropped = std::erase_if(nodes, [&](const Node& node) {
    return std::ranges::none_of(node.results, [&](ValueId result) { return is_read[index_of(result)]; });
  });
  graph.set_nodes(std::move(nodes));
  return {.rewrites = static_cast<int>(dropped), .declined = {}};
}

}  // namespace headroom
