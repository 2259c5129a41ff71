#include "autodiff/replace_by_definitions.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "ir/expand.hpp"

namespace headroom {
namespace {

/// The nodes that define `node`, made in `graph`, whose schedule is empty before and after.
std::vector<Node> definition_nodes(Graph& graph, const Node& node) {
  Builder builder(graph);
  builder.set_path(node.path);
  builder.set_region(node.region);
  const std::vector<ValueId> made = expand_node(builder, node.op, node.attributes, node.inputs);
  HR_CHECK_EQ(made.size(), node.results.size());

  std::map<ValueId, ValueId> names;
  const auto is_made_here = [&](ValueId value) {
    return std::ranges::any_of(graph.nodes(), [&](const Node& own) { return std::ranges::count(own.results, value); });
  };
  for (std::size_t i = 0; i < made.size(); ++i) {
    HR_CHECK(graph.type(made[i]) == graph.type(node.results[i]));
    ValueId value = made[i];
    if (names.contains(value) || !is_made_here(value)) {  // an operand, or a result given twice
      const Shape shape = graph.type(value).shape;
      value = builder.reshape(value, {shape.dims().begin(), shape.dims().end()});
    }
    names.emplace(value, node.results[i]);
  }

  std::vector<Node> nodes = graph.take_nodes();
  for (Node& own : nodes)
    for (std::vector<ValueId>* values : {&own.inputs, &own.results})
      for (ValueId& value : *values)
        if (const auto named = names.find(value); named != names.end()) value = named->second;
  return nodes;
}

}  // namespace

void replace_by_definitions(Graph& graph, const std::vector<bool>& replaces) {
  std::vector<Node> schedule;
  std::vector<Node> old = graph.take_nodes();
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (replaces[i])
      std::ranges::move(definition_nodes(graph, old[i]), std::back_inserter(schedule));
    else
      schedule.push_back(std::move(old[i]));
  }
  graph.set_nodes(std::move(schedule));
}

}  // namespace headroom
