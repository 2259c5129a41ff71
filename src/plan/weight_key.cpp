#include "plan/weight_key.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

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
  // Follows the weights back to their params: a model has thousands of weights, and thousands of nodes in all.
  const std::vector<int> producers = find_producers(graph);
  std::set<int> nodes;                // in the order of the schedule
  std::map<ValueId, ValueId> copies;  // of values that are needed, params in their order
  std::vector<ValueId> open(values.begin(), values.end());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const int producer = producers[index_of(value)];
    if (producer < 0) {
      HR_CHECK(graph.value(value).kind == ValueKind::kParam);
      copies.emplace(value, kNoValue);
    } else if (nodes.insert(producer).second) {
      const std::vector<ValueId>& inputs = graph.nodes()[static_cast<std::size_t>(producer)].inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
  }

  Graph result("weight");
  for (auto& [param, copy] : copies) copy = result.add_input(graph.value(param).name, graph.type(param));
  for (const int index : nodes) {
    const Node& node = graph.nodes()[static_cast<std::size_t>(index)];
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(copies.at(input));
    result.append(node.op, std::move(inputs), node.attributes, node.path, kTopRegion);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ValueId copy = copies[node.results[i]] = result.nodes().back().results[i];
      result.set_layout(copy, graph.type(node.results[i]).layout);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) result.add_output(std::to_string(i), copies.at(values[i]));
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
