#include "plan/weight_key.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"

namespace headroom {
namespace {

std::string attribute_text(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (requires { value.begin(); } && !std::is_same_v<std::decay_t<decltype(value)>, std::string>)
          return fmt::format("[{}]", fmt::join(value, ","));
        else
          return fmt::format("{}", value);
      },
      attribute);
}

std::string key_of(const Graph& graph, const std::vector<int>& producers, ValueId value) {
  const Value& v = graph.value(value);
  if (v.kind == ValueKind::kParam) return v.name;
  const int producer = producers[index_of(value)];
  HR_CHECK(producer >= 0);
  const Node& node = graph.nodes()[static_cast<std::size_t>(producer)];
  std::string key = fmt::format("{}(", name_of(node.op));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    key += (i == 0 ? "" : ",") + key_of(graph, producers, node.inputs[i]);
  key += ")";
  for (const auto& [name, attribute] : node.attributes.all())
    key += fmt::format("{{{}={}}}", name, attribute_text(attribute));
  if (node.results.size() > 1) key += fmt::format("#{}", std::ranges::find(node.results, value) - node.results.begin());
  return key;
}

ValueId copy_into(const Graph& from, const std::vector<int>& producers, ValueId value, Graph& to) {
  const Value& v = from.value(value);
  if (v.kind == ValueKind::kParam) {
    const ValueId known = to.find(ValueKind::kInput, v.name);
    return known != kNoValue ? known : to.add_input(v.name, v.type);
  }
  const Node& node = from.nodes()[static_cast<std::size_t>(producers[index_of(value)])];
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(copy_into(from, producers, input, to));
  const ValueId first = to.append(node.op, std::move(inputs), node.attributes, node.path, kTopRegion);
  const auto slot = std::ranges::find(node.results, value) - node.results.begin();
  return ValueId(static_cast<std::int32_t>(index_of(first)) + static_cast<std::int32_t>(slot));
}

}  // namespace

std::string weight_key(const Graph& graph, const std::vector<int>& producers, ValueId value) {
  return key_of(graph, producers, value);
}

Graph weight_graph(const Graph& graph, const std::vector<int>& producers, ValueId value) {
  Graph result("weight");
  const ValueId copied = copy_into(graph, producers, value, result);
  result.add_output("weight", copied);
  return result;
}

}  // namespace headroom
