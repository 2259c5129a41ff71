#include "plan/weight_key.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

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

/// Copies what makes values from one graph into another, each node once.
class Copier {
 public:
  Copier(const Graph& from, const std::vector<int>& producers, Graph& to)
      : from_(from), producers_(producers), to_(to) {}

  ValueId copy(ValueId value) {
    const Value& v = from_.value(value);
    if (v.kind == ValueKind::kParam) {
      const ValueId known = to_.find(ValueKind::kInput, v.name);
      return known != kNoValue ? known : to_.add_input(v.name, v.type);
    }
    const int producer = producers_[index_of(value)];
    const Node& node = from_.nodes()[static_cast<std::size_t>(producer)];
    auto known = first_results_.find(producer);
    if (known == first_results_.end()) {
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(copy(input));
      const ValueId first = to_.append(node.op, std::move(inputs), node.attributes, node.path, kTopRegion);
      known = first_results_.emplace(producer, first).first;
    }
    const auto slot = std::ranges::find(node.results, value) - node.results.begin();
    return ValueId(static_cast<std::int32_t>(index_of(known->second)) + static_cast<std::int32_t>(slot));
  }

 private:
  const Graph& from_;
  const std::vector<int>& producers_;
  Graph& to_;
  std::map<int, ValueId> first_results_;  // by node
};

}  // namespace

std::string weight_key(const Graph& graph, const std::vector<int>& producers, ValueId value) {
  return key_of(graph, producers, value);
}

Graph weight_graph(const Graph& graph, const std::vector<int>& producers, std::span<const ValueId> values) {
  Graph result("weight");
  Copier copier(graph, producers, result);
  for (std::size_t i = 0; i < values.size(); ++i) result.add_output(std::to_string(i), copier.copy(values[i]));
  return result;
}

}  // namespace headroom
