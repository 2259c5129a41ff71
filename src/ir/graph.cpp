#include "ir/graph.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"
#include "ir/infer.hpp"

namespace headroom {

Graph::Graph(std::string name) : name_(std::move(name)), regions_{Region{}} {}

ValueId Graph::add_value(ValueKind kind, std::string name, TensorType type) {
  for (const std::int64_t extent : type.shape.dims()) HR_CHECK_LE(1, extent);
  if (kind != ValueKind::kResult && find(kind, name) != kNoValue) {
    throw std::logic_error(fmt::format("the graph {} has two values of one kind called \"{}\"", name_, name));
  }
  values_.push_back(Value{kind, std::move(name), type});
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::add_input(std::string name, TensorType type) {
  return add_value(ValueKind::kInput, std::move(name), type);
}
ValueId Graph::add_param(std::string name, TensorType type) {
  return add_value(ValueKind::kParam, std::move(name), type);
}
ValueId Graph::add_state(std::string name, TensorType type) {
  return add_value(ValueKind::kState, std::move(name), type);
}
ValueId Graph::add_result(TensorType type) { return add_value(ValueKind::kResult, {}, type); }

RegionId Graph::add_loop(RegionId parent, std::int64_t trip_count, std::string counter_name) {
  HR_CHECK(parent >= 0 && static_cast<std::size_t>(parent) < regions_.size());
  HR_CHECK_LE(1, trip_count);
  const ValueId counter = add_value(ValueKind::kCounter, std::move(counter_name), TensorType{DType::kI32, Shape{}});
  regions_.push_back(Region{RegionKind::kLoop, parent, trip_count, counter});
  return static_cast<RegionId>(regions_.size() - 1);
}

Node Graph::make_node(Op op, std::vector<ValueId> inputs, Attributes attributes, std::string path, RegionId region) {
  HR_CHECK(region >= 0 && static_cast<std::size_t>(region) < regions_.size());
  std::vector<TensorType> input_types;
  input_types.reserve(inputs.size());
  for (const ValueId input : inputs) input_types.push_back(type(input));
  std::vector<TensorType> result_types;
  try {
    result_types = infer(op, attributes, input_types);
  } catch (const Error& error) {
    if (path.empty()) throw;
    throw Error(fmt::format("at {}: {}", path, error.what()), error.code());
  }
  Node node{op, std::move(attributes), std::move(inputs), {}, std::move(path), region};
  for (const TensorType& result : result_types) node.results.push_back(add_result(result));
  return node;
}

ValueId Graph::append(Op op, std::vector<ValueId> inputs, Attributes attributes, std::string path, RegionId region) {
  nodes_.push_back(make_node(op, std::move(inputs), std::move(attributes), std::move(path), region));
  return nodes_.back().results.front();
}

void Graph::add_output(std::string name, ValueId value) {
  HR_CHECK_LT(index_of(value), values_.size());
  if (std::ranges::find(outputs_, name, &Output::name) != outputs_.end()) {
    throw std::logic_error(fmt::format("the graph {} has two outputs called \"{}\"", name_, name));
  }
  outputs_.push_back(Output{std::move(name), value});
}

void Graph::set_next(ValueId state, ValueId next, RegionId region) {
  HR_CHECK(value(state).kind == ValueKind::kState);
  HR_CHECK_LT(index_of(next), values_.size());
  HR_CHECK(region >= 0 && static_cast<std::size_t>(region) < regions_.size());
  const auto earlier = std::ranges::find(state_updates_, state, &StateUpdate::value);
  if (earlier != state_updates_.end()) {
    *earlier = StateUpdate{state, next, region};
  } else {
    state_updates_.push_back(StateUpdate{state, next, region});
  }
}

const Value& Graph::value(ValueId id) const {
  HR_CHECK_LT(index_of(id), values_.size());
  return values_[index_of(id)];
}

std::vector<ValueId> Graph::values_of(ValueKind kind) const {
  std::vector<ValueId> found;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].kind == kind) found.push_back(static_cast<ValueId>(i));
  }
  return found;
}

ValueId Graph::find(ValueKind kind, std::string_view name) const {
  if (kind == ValueKind::kResult) return kNoValue;
  const auto found = std::ranges::find_if(values_, [&](const Value& v) { return v.kind == kind && v.name == name; });
  return found == values_.end() ? kNoValue : static_cast<ValueId>(found - values_.begin());
}

void Graph::replace_uses(ValueId from, ValueId to) {
  HR_CHECK_LT(index_of(to), values_.size());
  for (Node& node : nodes_) std::ranges::replace(node.inputs, from, to);
  for (Output& output : outputs_) {
    if (output.value == from) output.value = to;
  }
  for (StateUpdate& update : state_updates_) {
    if (update.next == from) update.next = to;
  }
}

void Graph::set_dtype(ValueId id, DType dtype) {
  HR_CHECK_LT(index_of(id), values_.size());
  values_[index_of(id)].type.dtype = dtype;
}

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.value_count(), 0);
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) ++uses[index_of(input)];
  }
  for (const Output& output : graph.outputs()) ++uses[index_of(output.value)];
  for (const StateUpdate& update : graph.state_updates()) ++uses[index_of(update.next)];
  return uses;
}

std::vector<int> find_producers(const Graph& graph) {
  std::vector<int> producers(graph.value_count(), -1);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId result : graph.nodes()[i].results) producers[index_of(result)] = static_cast<int>(i);
  }
  return producers;
}

std::vector<bool> find_weight_values(const Graph& graph) {
  std::vector<bool> is_weight(graph.value_count(), false);
  for (const ValueId param : graph.values_of(ValueKind::kParam)) is_weight[index_of(param)] = true;
  for (const Node& node : graph.nodes()) {
    const bool from_weights =
        std::ranges::all_of(node.inputs, [&](ValueId input) { return is_weight[index_of(input)]; });
    for (const ValueId result : node.results) is_weight[index_of(result)] = from_weights && !node.inputs.empty();
  }
  return is_weight;
}

std::string describe(const Node& node) {
  if (node.path.empty()) return std::string(name_of(node.op));
  return fmt::format("{} at {}", name_of(node.op), node.path);
}

}  // namespace headroom
