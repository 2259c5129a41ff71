// dead-code: y = silu(x), output x  ->  output x
//
// Removes nodes and region results that no output, next value of a state or predicate depends on.

#include <algorithm>
#include <cstddef>

#include "passes/pass.hpp"

namespace headroom {

PassOutcome dead_code(Graph& graph, const Target&) {
  std::vector<bool> is_read(graph.value_count(), false);
  const auto read = [&](ValueId value) {
    if (value != kNoValue) is_read[index_of(value)] = true;
  };
  for (const Output& output : graph.outputs()) read(output.value);
  for (const StateUpdate& update : graph.state_updates()) read(update.next);
  for (const Region& region : graph.regions()) read(region.predicate);

  std::vector<Node> nodes = graph.take_nodes();
  // If a region's result is read after it, the nodes of the region are needed; they precede the reader.
  std::ptrdiff_t before = 0;
  do {
    before = std::ranges::count(is_read, true);
    for (const Region& region : graph.regions())
      for (const RegionResult& result : region.results) {
        if (!is_read[index_of(result.value)]) continue;
        read(result.from);
        read(result.otherwise);
      }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const bool live = std::ranges::any_of(node->results, [&](ValueId result) { return is_read[index_of(result)]; });
      if (live) std::ranges::for_each(node->inputs, read);
    }
  } while (std::ranges::count(is_read, true) > before);
  const auto dropped = std::erase_if(nodes, [&](const Node& node) {
    return std::ranges::none_of(node.results, [&](ValueId result) { return is_read[index_of(result)]; });
  });
  graph.set_nodes(std::move(nodes));
  graph.drop_region_results(is_read);
  return {.rewrites = static_cast<int>(dropped)};
}

}  // namespace headroom
