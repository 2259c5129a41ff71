#include "plan/weight_key.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/files/hash.hpp"
#include "ir/text/text.hpp"

namespace headroom {
namespace {

/// The elements of a constant as text: listed if there are at most kMostNamed, else as a hash.
std::string numbers_text(const std::vector<double>& values) {
  constexpr std::size_t kMostNamed = 8;
  if (values.size() <= kMostNamed) return fmt::format("[{}]", fmt::join(values, ","));
  Hasher hasher;
  for (const double value : values) hasher.add(value);
  return fmt::format("[{} of {}]", hasher.hex(), values.size());
}

std::string attribute_text(const Attribute& attribute) {
  const auto* numbers = std::get_if<Floats>(&attribute);
  return numbers != nullptr ? numbers_text(*numbers) : to_text(attribute);
}

}  // namespace

std::string weight_key(const Graph& graph, const std::vector<int>& producers, ValueId value) {
  const Value& v = graph.value(value);
  if (v.kind == ValueKind::kParam) return v.name;
  const int producer = producers[index_of(value)];
  HR_CHECK(producer >= 0);
  const Node& node = graph.nodes()[static_cast<std::size_t>(producer)];
  std::string key = fmt::format("{}(", name_of(node.op));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    key += (i == 0 ? "" : ",") + weight_key(graph, producers, node.inputs[i]);
  key += ")";
  for (const auto& [name, attribute] : node.attributes.all())
    key += fmt::format("{{{}={}}}", name, attribute_text(attribute));
  if (v.type.layout == Layout::kChannelsLast) key += "{channels_last}";
  if (node.results.size() > 1) key += fmt::format("#{}", std::ranges::find(node.results, value) - node.results.begin());
  return key;
}

Graph weight_graph(const Graph& graph, std::span<const ValueId> values) {
  std::vector<bool> is_needed(graph.value_count(), false);
  for (const ValueId value : values) is_needed[index_of(value)] = true;
  const auto makes_needed = [&](const Node& node) {
    return std::ranges::any_of(node.results, [&](ValueId result) { return is_needed[index_of(result)]; });
  };
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node)
    if (makes_needed(*node))
      for (const ValueId input : node->inputs) is_needed[index_of(input)] = true;

  Graph result("weight");
  std::vector<ValueId> copies(graph.value_count(), kNoValue);
  for (const ValueId param : graph.values_of(ValueKind::kParam))
    if (is_needed[index_of(param)])
      copies[index_of(param)] = result.add_input(graph.value(param).name, graph.type(param));
  for (const Node& node : graph.nodes()) {
    if (!makes_needed(node)) continue;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(copies[index_of(input)]);
    result.append(node.op, std::move(inputs), node.attributes, node.path, kTopRegion);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      ValueId& copy = copies[index_of(node.results[i])];
      copy = result.nodes().back().results[i];
      result.set_layout(copy, graph.type(node.results[i]).layout);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) result.add_output(std::to_string(i), copies[index_of(values[i])]);
  return result;
}

Place WeightUses::place(ValueId weight, const std::shared_ptr<const PreparedKernel>& prepared, std::size_t input) {
  WeightUse use = dense(weight);
  const std::span<const PackedWeight> packed = prepared->packed_weights();
  for (std::size_t p = 0; p < packed.size(); ++p) {
    if (packed[p].input != static_cast<int>(input)) continue;
    use.layout = packed[p].layout;
    use.bytes = packed[p].bytes;
    use.packer = prepared;
    use.packed_index = p;
  }
  return place_of(std::move(use));
}

WeightUse WeightUses::dense(ValueId weight) {
  std::string& key = keys_[weight];
  if (key.empty()) key = weight_key(program_.graph, producers_, weight);
  return {.value = weight, .key = key, .bytes = program_.graph.type(weight).bytes()};
}

Place WeightUses::place_of(WeightUse use) {
  const Shape strides = dense_operand(program_.graph.type(use.value)).strides;
  const auto [known, is_new] = storages_.try_emplace({use.key, use.layout}, -1);
  if (is_new) {
    known->second = use.storage = static_cast<int>(program_.storages.size());
    program_.storages.push_back({.kind = StorageKind::kWeight, .bytes = use.bytes});
    program_.weights.push_back(std::move(use));
  }
  return {.storage = known->second, .strides = strides};
}

}  // namespace headroom
