#include "ir/graph.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/op_definition.hpp"

namespace headroom {

std::string_view name_of(ValueKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"input", "param", "state", "counter", "result", "region result"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Graph::Graph(std::string name) : name_(std::move(name)), regions_{Region{}} {}

ValueId Graph::add_value(ValueKind kind, std::string name, TensorType type) {
  for (const std::int64_t extent : type.shape.dims()) HR_CHECK_LE(1, extent);
  const auto id = static_cast<ValueId>(values_.size());
  const auto index = static_cast<std::size_t>(kind);
  const bool is_new = index >= by_name_.size() || by_name_.at(index).try_emplace(name, id).second;
  if (!is_new && !name.empty()) {
    throw std::logic_error(fmt::format("the graph {} has two values of one kind called \"{}\"", name_, name));
  }
  values_.push_back(Value{kind, std::move(name), type});
  return id;
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

RegionId Graph::add_region(Region region) {
  HR_CHECK(region.parent >= 0 && index_of(region.parent) < regions_.size());
  regions_.push_back(std::move(region));
  return static_cast<RegionId>(regions_.size() - 1);
}

RegionId Graph::add_loop(RegionId parent, std::int64_t trip_count, std::string counter_name) {
  HR_CHECK_LE(1, trip_count);
  const ValueId counter = add_value(ValueKind::kCounter, std::move(counter_name), TensorType{DType::kI32, Shape{}});
  return add_region({.kind = RegionKind::kLoop, .parent = parent, .trip_count = trip_count, .counter = counter});
}

RegionId Graph::add_then(RegionId parent, ValueId predicate) {
  return add_region({.kind = RegionKind::kThen, .parent = parent, .predicate = predicate});
}

RegionId Graph::add_else(RegionId then) {
  HR_CHECK(region(then).kind == RegionKind::kThen && region(then).branch == kNoRegion);
  const RegionId branch = add_region({.kind = RegionKind::kElse, .parent = region(then).parent, .branch = then});
  regions_[index_of(then)].branch = branch;
  return branch;
}

ValueId Graph::add_region_result(RegionId region, ValueId from, ValueId otherwise) {
  HR_CHECK((this->region(region).kind == RegionKind::kThen) == (otherwise != kNoValue));
  for (const RegionResult& known : this->region(region).results)
    if (known.from == from && known.otherwise == otherwise) return known.value;
  const ValueId value = add_value(ValueKind::kRegionResult, {}, type(from));
  regions_[index_of(region)].results.push_back({.value = value, .from = from, .otherwise = otherwise});
  return value;
}

ValueId Graph::read_after(ValueId value, RegionId region) {
  if (this->value(value).kind != ValueKind::kState) return value;
  const auto next_in = [&](RegionId updated) {
    const auto update = std::ranges::find_if(state_updates_, [&](const StateUpdate& candidate) {
      return candidate.value == value && candidate.region == updated;
    });
    return update == state_updates_.end() ? kNoValue : update->next;
  };
  const auto update = std::ranges::find(state_updates_, value, &StateUpdate::value);
  if (update == state_updates_.end() || is_within(*this, region, update->region)) return value;
  RegionId updated = update->region;
  ValueId last = update->next;
  while (!is_within(*this, region, updated)) {
    const Region& closed = this->region(updated);
    if (closed.branch != kNoRegion && is_within(*this, region, closed.branch)) return value;  // in the other branch
    if (closed.kind == RegionKind::kLoop) {
      last = add_region_result(updated, last);
    } else {
      const RegionId then = closed.kind == RegionKind::kThen ? updated : closed.branch;
      const RegionId other = this->region(then).branch;
      const auto next_or_old = [&](RegionId branch) {
        if (branch == updated) return last;
        const ValueId next = branch == kNoRegion ? kNoValue : next_in(branch);
        return next == kNoValue ? value : next;
      };
      last = add_region_result(then, next_or_old(then), next_or_old(other));
    }
    updated = closed.parent;
  }
  return last;
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

void Graph::add_block(std::string path) {
  if (path.empty() || std::ranges::find(blocks_, path) != blocks_.end())
    throw std::logic_error(fmt::format("the graph {} has two blocks at \"{}\", or one without a path", name_, path));
  blocks_.push_back(std::move(path));
}

void Graph::set_next(ValueId state, ValueId next, RegionId region) {
  HR_CHECK(value(state).kind == ValueKind::kState);
  HR_CHECK_LT(index_of(next), values_.size());
  HR_CHECK(region >= 0 && index_of(region) < regions_.size());
  const RegionId branch = regions_[index_of(region)].branch;
  const auto earlier = std::ranges::find_if(state_updates_, [&](const StateUpdate& update) {
    return update.value == state && (branch == kNoRegion || update.region != branch);
  });
  if (earlier != state_updates_.end()) {
    *earlier = StateUpdate{state, next, region};
  } else {
    state_updates_.push_back(StateUpdate{state, next, region});
  }
}

const Region& Graph::region(RegionId id) const {
  HR_CHECK(id >= 0 && index_of(id) < regions_.size());
  return regions_[index_of(id)];
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
  const auto index = static_cast<std::size_t>(kind);
  if (index >= by_name_.size()) return kNoValue;
  const auto found = by_name_.at(index).find(name);
  return found == by_name_.at(index).end() ? kNoValue : found->second;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  HR_CHECK_LT(index_of(to), values_.size());
  const auto replace = [&](ValueId& read) {
    if (read == from) read = to;
  };
  for (Node& node : nodes_) std::ranges::replace(node.inputs, from, to);
  for (Output& output : outputs_) replace(output.value);
  for (StateUpdate& update : state_updates_) replace(update.next);
  for (Region& region : regions_) {
    replace(region.predicate);
    for (RegionResult& result : region.results) {
      replace(result.from);
      replace(result.otherwise);
    }
  }
}

void Graph::drop_region_results(const std::vector<bool>& is_read) {
  for (Region& region : regions_)
    std::erase_if(region.results, [&](const RegionResult& result) { return !is_read[index_of(result.value)]; });
}

void Graph::set_shape(ValueId id, const Shape& shape) {
  HR_CHECK_LT(index_of(id), values_.size());
  values_[index_of(id)].type.shape = shape;
}
void Graph::set_dtype(ValueId id, DType dtype) {
  HR_CHECK_LT(index_of(id), values_.size());
  values_[index_of(id)].type.dtype = dtype;
}
void Graph::set_layout(ValueId id, Layout layout) { values_[index_of(id)].type.layout = layout; }

bool is_within(const Graph& graph, RegionId inner, RegionId outer) {
  while (inner > outer) inner = graph.region(inner).parent;  // a parent's id is smaller than its child's
  return inner == outer;
}

bool reads_alike(const Graph& graph, ValueId value, RegionId inner, RegionId outer) {
  if (graph.value(value).kind != ValueKind::kState) return true;
  for (RegionId around = inner; around != outer; around = graph.region(around).parent) {
    if (graph.region(around).kind != RegionKind::kLoop) continue;
    for (const StateUpdate& update : graph.state_updates())
      if (update.value == value && is_within(graph, update.region, around)) return false;
  }
  return true;
}

std::vector<Assignment> assignments_at_end(const Graph& graph, RegionId region, bool ran) {
  std::vector<Assignment> assignments;
  for (const StateUpdate& update : graph.state_updates())
    if (ran && update.region == region) assignments.push_back({update.value, update.next});
  const Region& ends = graph.region(region);
  const bool is_else = ends.kind == RegionKind::kElse;
  for (const RegionResult& result : (is_else ? graph.region(ends.branch) : ends).results)
    assignments.push_back({result.value, ran && !is_else ? result.from : result.otherwise});
  return assignments;
}

std::vector<ValueId> reads_outside_nodes(const Graph& graph) {
  std::vector<ValueId> reads;
  for (const Output& output : graph.outputs()) reads.push_back(output.value);
  for (const StateUpdate& update : graph.state_updates()) reads.push_back(update.next);
  for (const Region& region : graph.regions()) {
    if (region.predicate != kNoValue) reads.push_back(region.predicate);
    for (const RegionResult& result : region.results) {
      reads.push_back(result.from);
      if (result.otherwise != kNoValue) reads.push_back(result.otherwise);
    }
  }
  return reads;
}

std::vector<int> find_producers(const Graph& graph) {
  std::vector<int> producers(graph.value_count(), -1);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId result : graph.nodes()[i].results) producers[index_of(result)] = static_cast<int>(i);
  }
  return producers;
}

bool is_computed_at_run(const Node& node) { return node.op == Op::kUnpackBlocks && node.attributes[attr::kAtRun]; }

std::vector<bool> find_weight_values(const Graph& graph) {
  std::vector<bool> is_weight(graph.value_count(), false);
  for (const ValueId param : graph.values_of(ValueKind::kParam)) is_weight[index_of(param)] = true;
  for (const Node& node : graph.nodes()) {
    const bool from_weights =
        !definition_of(node.op).is_collective && !is_computed_at_run(node) &&
        std::ranges::all_of(node.inputs, [&](ValueId input) { return is_weight[index_of(input)]; });
    for (const ValueId result : node.results) is_weight[index_of(result)] = from_weights;
  }
  return is_weight;
}

std::string describe(const Node& node) {
  if (node.path.empty()) return std::string(name_of(node.op));
  return fmt::format("{} at {}", name_of(node.op), node.path);
}

}  // namespace headroom

fmt::format_context::iterator fmt::formatter<headroom::TensorType>::format(const headroom::TensorType& type,
                                                                           format_context& context) const {
  return formatter<std::string_view>::format(std::string(headroom::name_of(type.dtype)) + type.shape.to_string(),
                                             context);
}
