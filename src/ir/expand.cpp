#include "ir/expand.hpp"

#include "base/error.hpp"
#include "ir/op_definition.hpp"

namespace headroom {

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

}  // namespace headroom
