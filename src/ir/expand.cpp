#include "ir/expand.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "ir/op_definition.hpp"

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

bool is_fused(Op op, const Attributes& attributes) {
  return schema_of(op).fused || (attributes.has(attr::kEpilogue) && !attributes[attr::kEpilogue].is_empty());
}

std::vector<ValueId> expand_node(Builder& builder, Op op, const Attributes& attributes,
                                 std::span<const ValueId> inputs) {
  if (is_fused(op, attributes)) return definition_of(op).expand(builder, attributes, inputs);
  throw std::logic_error(fmt::format("{} is a plain op and has no expansion", name_of(op)));
}

Graph expand(const Graph& graph) {
  Graph expanded = graph;
  std::vector<ValueId> replacement(graph.value_count());
  for (std::size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<ValueId>(i);

  Builder builder(expanded);
  std::vector<Node> schedule;
  for (Node& node : expanded.take_nodes()) {
    for (ValueId& input : node.inputs) input = replacement[index_of(input)];
    if (!is_fused(node.op, node.attributes)) {
      schedule.push_back(std::move(node));
      continue;
    }
    builder.set_path(node.path);
    builder.set_region(node.region);
    const std::vector<ValueId> results = expand_node(builder, node.op, node.attributes, node.inputs);
    HR_CHECK_EQ(results.size(), node.results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      HR_CHECK(expanded.type(results[i]) == expanded.type(node.results[i]));
      replacement[index_of(node.results[i])] = results[i];
      expanded.replace_uses(node.results[i], results[i]);  // in outputs and state updates; the schedule is taken out
    }
    for (Node& plain : expanded.take_nodes()) schedule.push_back(std::move(plain));
  }
  expanded.set_nodes(std::move(schedule));
  return expanded;
}

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
