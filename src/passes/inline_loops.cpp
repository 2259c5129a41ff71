// inline-loops: loop 1 i { t = row(times, i), y = f(s, t), next s = y }
//           ->  t = reshape(slice(times, 0, 1)), y = f(s, t), next s = y
//
// A loop that runs once becomes straight-line code. The same is computed in the same order; the pass removes
//  - the loop itself: on a GPU a WHILE node with a kernel before and one after its body, on the host a counter to
//    upload;
//  - rows indexed by the counter, each of which is a launch: the only row is a view;
//  - the boundary of the loop, across which nothing can be fused, placed or moved.
// Live streams in one step and images in one step consist of such loops.
//
// A loop is kept if its end is needed: a later node reads a state's value at that point, and the state changes
// afterwards. All loops are kept next to a remaining region that returns results, because the position of that region
// may depend on the loops around its readers.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "passes/pass.hpp"

namespace headroom {
namespace {

/// Whether only the end of the loop can define a value: a state is read that another, possibly later, region updates;
/// or a region result is a state, and may be an output, under whose name the final value would appear.
bool needs_its_end(const Graph& graph, RegionId loop) {
  const auto is_state = [&](ValueId value) { return graph.value(value).kind == ValueKind::kState; };
  for (const Assignment& assignment : assignments_at_end(graph, loop))
    for (const StateUpdate& update : graph.state_updates())
      if (update.value == assignment.from && update.region != loop) return true;
  const auto is_result = [&](const Output& output) {
    return graph.value(output.value).kind == ValueKind::kRegionResult;
  };
  return std::ranges::any_of(graph.region(loop).results, is_state, &RegionResult::from) &&
         std::ranges::any_of(graph.outputs(), is_result);
}

bool is_read(const Graph& graph, ValueId value) {
  const auto reads = [&](const Node& node) { return std::ranges::find(node.inputs, value) != node.inputs.end(); };
  return std::ranges::any_of(graph.nodes(), reads) || std::ranges::count(reads_outside_nodes(graph), value) > 0;
}

/// Replaces reads of rows by the counter by views of the first row.
void take_first_rows(Graph& graph, ValueId counter) {
  std::vector<Node> nodes;
  for (Node& node : graph.take_nodes()) {
    if (node.op == Op::kRow && node.input(Role::kIndex) == counter) {
      if (graph.type(node.inputs[0]).shape[0] > 1) {
        nodes.push_back(graph.make_node(
            Op::kSlice, {node.inputs[0]},
            Attributes(Op::kSlice, {{attr::kAxis, 0}, {attr::kStart, 0}, {attr::kExtent, 1}}), node.path, node.region));
        node.inputs[0] = nodes.back().results[0];
      }
      const std::span<const std::int64_t> extents = graph.type(node.results[0]).shape.dims();
      node.op = Op::kReshape;
      node.inputs.resize(1);
      node.attributes =
          Attributes(Op::kReshape, {{attr::kShape, std::vector<std::int64_t>(extents.begin(), extents.end())}});
    }
    nodes.push_back(std::move(node));
  }
  graph.set_nodes(std::move(nodes));
}

/// The counter of the only iteration, at the start of the schedule, where all regions may read it.
ValueId add_zero(Graph& graph) {
  Node zero = graph.make_node(Op::kConstant, {},
                              Attributes(Op::kConstant, {{attr::kValues, std::vector<double>{0}},
                                                         {attr::kShape, std::vector<std::int64_t>{}},
                                                         {attr::kDType, DType::kI32}}),
                              "", kTopRegion);
  const ValueId value = zero.results[0];
  std::vector<Node> nodes = graph.take_nodes();
  nodes.insert(nodes.begin(), std::move(zero));
  graph.set_nodes(std::move(nodes));
  return value;
}

/// A copy of a graph without some loops, whose counters nothing reads. Their items move into the enclosing region,
/// and their results are replaced by the values that these return.
class WithoutLoops {
 public:
  WithoutLoops(const Graph& from, const std::vector<bool>& dissolved)
      : from_(from),
        dissolved_(dissolved),
        to_(from.name()),
        values_(from.value_count(), kNoValue),
        regions_{kTopRegion} {
    for (RegionId id = kTopRegion + 1; index_of(id) < from.regions().size(); ++id)
      if (dissolved[index_of(id)])
        for (const RegionResult& result : from.region(id).results) returned_by_.emplace(result.value, result.from);
  }

  Graph build() {
    for (std::size_t i = 0; i < from_.value_count(); ++i) add_value(ValueId(static_cast<std::int32_t>(i)));
    for (RegionId id = kTopRegion + 1; index_of(id) < from_.regions().size(); ++id) add_region(id);
    std::vector<Node> nodes(from_.nodes().begin(), from_.nodes().end());
    for (Node& node : nodes) {
      for (ValueId& input : node.inputs) input = value_of(input);
      for (ValueId& result : node.results) result = value_of(result);
      node.region = regions_[index_of(node.region)];
    }
    to_.set_nodes(std::move(nodes));
    for (const Output& output : from_.outputs()) to_.add_output(output.name, value_of(output.value));
    for (const std::string& block : from_.blocks()) to_.add_block(block);
    for (const StateUpdate& update : from_.state_updates())
      to_.set_next(value_of(update.value), value_of(update.next), regions_[index_of(update.region)]);
    add_results();
    return std::move(to_);
  }

 private:
  /// The value in the new graph that corresponds to `value`.
  [[nodiscard]] ValueId value_of(ValueId value) const {
    if (value == kNoValue) return kNoValue;
    const auto found = returned_by_.find(value);
    return found != returned_by_.end() ? value_of(found->second) : values_[index_of(value)];
  }

  void add_value(ValueId id) {
    const Value& value = from_.value(id);
    ValueId& made = values_[index_of(id)];
    if (value.kind == ValueKind::kInput) made = to_.add_input(value.name, value.type);
    if (value.kind == ValueKind::kParam) made = to_.add_param(value.name, value.type);
    if (value.kind == ValueKind::kState) made = to_.add_state(value.name, value.type);
    // A region's result may be read by items that must precede the region, so a placeholder represents it at first.
    if (value.kind == ValueKind::kResult || value.kind == ValueKind::kRegionResult) made = to_.add_result(value.type);
  }

  void add_region(RegionId id) {
    const Region& region = from_.region(id);
    const RegionId parent = regions_[index_of(region.parent)];
    if (dissolved_[index_of(id)]) {
      regions_.push_back(parent);
    } else if (region.kind == RegionKind::kLoop) {
      regions_.push_back(to_.add_loop(parent, region.trip_count, from_.value(region.counter).name));
      values_[index_of(region.counter)] = to_.region(regions_.back()).counter;
    } else if (region.kind == RegionKind::kThen) {
      regions_.push_back(to_.add_then(parent, value_of(region.predicate)));
    } else {
      regions_.push_back(to_.add_else(regions_[index_of(region.branch)]));
    }
  }

  void add_results() {
    for (RegionId id = kTopRegion + 1; index_of(id) < from_.regions().size(); ++id)
      if (!dissolved_[index_of(id)])
        for (const RegionResult& result : from_.region(id).results)
          to_.replace_uses(value_of(result.value), to_.add_region_result(regions_[index_of(id)], value_of(result.from),
                                                                         value_of(result.otherwise)));
  }

  const Graph& from_;
  const std::vector<bool>& dissolved_;      // by region
  std::map<ValueId, ValueId> returned_by_;  // results of removed loops, and the values that they return
  Graph to_;
  std::vector<ValueId> values_;    // in the new graph, by value of the old one
  std::vector<RegionId> regions_;  // likewise
};

}  // namespace

PassOutcome inline_loops(Graph& graph, const Target&) {
  std::vector<bool> dissolved(graph.regions().size(), false);
  for (RegionId id = kTopRegion + 1; index_of(id) < dissolved.size(); ++id) {
    const Region& region = graph.region(id);
    dissolved[index_of(id)] = region.kind == RegionKind::kLoop && region.trip_count == 1 && !needs_its_end(graph, id);
    if (!dissolved[index_of(id)] && !region.results.empty()) return {};
  }
  ValueId zero = kNoValue;
  for (RegionId id = kTopRegion + 1; index_of(id) < dissolved.size(); ++id) {
    if (!dissolved[index_of(id)]) continue;
    const ValueId counter = graph.region(id).counter;
    take_first_rows(graph, counter);
    if (!is_read(graph, counter)) continue;
    if (zero == kNoValue) zero = add_zero(graph);
    graph.replace_uses(counter, zero);
  }
  const auto inlined = static_cast<int>(std::ranges::count(dissolved, true));
  if (inlined > 0) graph = WithoutLoops(graph, dissolved).build();
  return {.rewrites = inlined};
}

}  // namespace headroom
