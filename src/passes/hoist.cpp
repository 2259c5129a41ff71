// hoist: loop n { t = row(times, step), m = linear(t, w), y = f(state, m) }
//    ->  all = linear(times, w), loop n { m = row(all, step), y = f(state, m) }
//
// A prologue for values that depend on request and step only. Two kinds of nodes leave each loop:
//  - Nodes with the same value in every iteration move before the loop unchanged (tables of rope, embeddings of text
//    and guidance).
//  - Nodes that depend on the counter only through rows of such tables (the time embedding and every AdaLN modulation
//    of it) are computed for all iterations at once, with a leading axis [n, ...], and the loop reads its row.
// Modulations may hold a quarter of the weights. A step multiplies each of them with one vector per sample, so that
// it is bound by reading them. All steps together read them once.
//
// Hoisting ends, per value, at the first op that reads a state changed by the loop, that has no rule in lift.cpp, or
// whose result for all iterations would take more than kMaxLiftedBytes. The loop then takes a row of the value
// before. Nodes in branches of an `if` in the loop, which a step cache creates, are hoisted like those of the loop
// itself, whether the branch is taken or not. A branch that would lose all of its nodes keeps them, and so do the
// others.
//
// Views (slices and reshapes) of such a value stay in the loop, as views of one row: chunking a modulation into six
// would otherwise copy six rows. Memory: the rows of all iterations exist at once, from the prologue to the last
// iteration.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/op_definition.hpp"
#include "passes/lift.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// Limit for one value in all iterations. A modulation of 18,432 takes 2 MiB in 28 steps, and 41 MiB for 20 images at
/// once; the token stream of its text takes 168 MiB.
constexpr std::size_t kMaxLiftedBytes = std::size_t{64} << 20U;

/// One loop, whose nodes are `loop` in a schedule that has been taken out of the graph.
class LoopHoister {
 public:
  /// With `from_branches`, nodes in branches inside the loop's iterations are hoisted as well.
  LoopHoister(Graph& graph, RegionId region, bool from_branches)
      : graph_(graph),
        id_(region),
        from_branches_(from_branches),
        region_(graph.region(region)),
        changes_(graph.value_count(), false),
        lifted_(graph.value_count(), kNoValue) {
    changes_[index_of(region_.counter)] = true;
    for (const StateUpdate& update : graph.state_updates())
      changes_[index_of(update.value)] = changes_[index_of(update.value)] || is_within(graph, update.region, region);
    for (RegionId inner = region + 1; inner < static_cast<RegionId>(graph.regions().size()); ++inner)
      if (is_within(graph, inner, region))
        for (const RegionResult& result : graph.region(inner).results) changes_[index_of(result.value)] = true;
  }

  /// Divides the loop's nodes into those that stay and those that run before. Returns the number of nodes that left
  /// the loop or became a row; 0 leaves `loop` unchanged.
  int run(std::vector<Node>& loop, const std::vector<bool>& read_outside) {
    for (const Node& node : loop) sort_out(node);
    std::vector<Node> staying = take_rows(loop, read_outside);
    if (left_ == 0 || empties_region(loop, staying)) return 0;
    loop = std::move(staying);
    drop_unread(loop);
    return left_;
  }

  [[nodiscard]] const std::vector<Node>& prologue() const { return prologue_; }
  /// Nodes that were not computed for all iterations only because of their size.
  [[nodiscard]] int too_large() const { return too_large_; }

 private:
  bool changes(ValueId value) const { return index_of(value) < changes_.size() && changes_[index_of(value)]; }
  bool is_lifted(ValueId value) const {
    return index_of(value) < lifted_.size() && lifted_[index_of(value)] != kNoValue;
  }

  /// Whether a node runs at most once in an iteration.
  bool may_leave(const Node& node) const {
    RegionId region = node.region;
    while (from_branches_ && region != id_ && graph_.region(region).kind != RegionKind::kLoop)
      region = graph_.region(region).parent;
    return region == id_;
  }

  /// A region without nodes would run at another position.
  bool empties_region(const std::vector<Node>& loop, const std::vector<Node>& staying) const {
    const auto has_nodes = [](const std::vector<Node>& nodes, RegionId region) {
      return std::ranges::find(nodes, region, &Node::region) != nodes.end();
    };
    if (staying.empty()) return true;
    return std::ranges::any_of(loop, [&](const Node& node) {
      return node.region != id_ && may_leave(node) && !has_nodes(staying, node.region);
    });
  }

  void sort_out(const Node& node) {
    const auto constant = [&](ValueId input) { return !changes(input); };
    if (may_leave(node) && std::ranges::all_of(node.inputs, constant)) {
      prologue_.push_back(node);
      prologue_.back().region = region_.parent;
      return;
    }
    for (const ValueId result : node.results) changes_[index_of(result)] = true;
    if (!may_leave(node)) return;
    if (node.op == Op::kRow)
      lifted_[index_of(node.results[0])] = lift_row(node);
    else if (std::ranges::all_of(node.inputs, [&](ValueId input) { return constant(input) || is_lifted(input); }))
      lifted_[index_of(node.results[0])] = lift_node(node);
  }

  ValueId emit(const Node& node, Op op, std::vector<ValueId> inputs, Attributes attributes) {
    prologue_.push_back(graph_.make_node(op, std::move(inputs), std::move(attributes), node.path, region_.parent));
    return prologue_.back().results[0];
  }

  /// The rows of a table equal its row in each iteration.
  ValueId lift_row(const Node& node) {
    const ValueId table = node.input(Role::kTable);
    const std::int64_t rows = graph_.type(table).shape[0];
    if (node.input(Role::kIndex) != region_.counter || changes(table) || rows < region_.trip_count) return kNoValue;
    if (rows == region_.trip_count) return table;
    return emit(node, Op::kSlice, {table},
                Attributes(Op::kSlice, {{attr::kAxis, 0}, {attr::kStart, 0}, {attr::kExtent, region_.trip_count}}));
  }

  ValueId lift_node(const Node& node) {
    if (node.results.size() != 1) return kNoValue;
    if (graph_.type(node.results[0]).bytes() * static_cast<std::size_t>(region_.trip_count) > kMaxLiftedBytes) {
      ++too_large_;
      return kNoValue;
    }
    std::vector<LiftOperand> operands;
    for (const ValueId input : node.inputs)
      operands.push_back(is_lifted(input) ? LiftOperand{lifted_[index_of(input)], true} : LiftOperand{input, false});
    return lift(graph_, node, operands, region_.trip_count,
                [&](Op op, std::vector<ValueId> inputs, Attributes attributes) {
                  return emit(node, op, std::move(inputs), std::move(attributes));
                });
  }

  /// The nodes that remain in the loop, with a row for each lifted value that they read.
  std::vector<Node> take_rows(const std::vector<Node>& loop, const std::vector<bool>& read_outside) {
    std::vector<bool> is_read = read_outside;
    std::vector<Node> staying;  // last first
    for (std::size_t i = loop.size(); i-- > 0;) {
      Node node = loop[i];
      const ValueId result = node.results[0];
      if (!changes(result) || (is_lifted(result) && !is_read[index_of(result)])) {
        ++left_;
        continue;
      }
      if (is_lifted(result) && node.op != Op::kRow && !is_view(node.op)) {
        ++left_;
        node.op = Op::kRow;
        node.attributes = {};
        node.inputs = {lifted_[index_of(result)], region_.counter};
      }
      for (const ValueId input : node.inputs)
        if (index_of(input) < is_read.size()) is_read[index_of(input)] = true;
      staying.push_back(std::move(node));
    }
    std::ranges::reverse(staying);
    return staying;
  }

  /// Removes values computed for all iterations that nothing reads.
  void drop_unread(const std::vector<Node>& loop) {
    std::vector<bool> is_read(graph_.value_count(), false);
    const auto read = [&](const Node& node) {
      for (const ValueId input : node.inputs) is_read[index_of(input)] = true;
    };
    std::ranges::for_each(loop, read);
    const auto is_unread = [&](const Node& node) {
      const ValueId result = node.results[0];
      return index_of(result) >= changes_.size() && !is_read[index_of(result)];  // the others are the loop's own nodes
    };
    std::vector<Node> kept;  // last first
    for (auto node = prologue_.rbegin(); node != prologue_.rend(); ++node) {
      if (is_unread(*node)) continue;
      read(*node);
      kept.push_back(std::move(*node));
    }
    std::ranges::reverse(kept);
    prologue_ = std::move(kept);
  }

  Graph& graph_;
  RegionId id_;
  bool from_branches_;
  Region region_;
  std::vector<bool> changes_;    // by value of the graph as it was: differs between iterations
  std::vector<ValueId> lifted_;  // likewise: the value for all iterations, [trip_count, ...]
  std::vector<Node> prologue_;
  int left_ = 0;
  int too_large_ = 0;
};

/// By value: read by a node outside the loop, or by a reader that is not a node.
std::vector<bool> find_reads_outside(const Graph& graph, RegionId loop) {
  std::vector<bool> is_read(graph.value_count(), false);
  for (const Node& node : graph.nodes())
    if (!is_within(graph, node.region, loop))
      for (const ValueId input : node.inputs) is_read[index_of(input)] = true;
  for (const ValueId read : reads_outside_nodes(graph)) is_read[index_of(read)] = true;
  return is_read;
}

}  // namespace

PassOutcome hoist(Graph& graph, const Target&) {
  const auto is_loop = [](const Region& region) { return region.kind == RegionKind::kLoop; };
  if (std::ranges::none_of(graph.regions(), is_loop)) return {.declined = "there is no loop of several steps here"};
  int moved = 0, too_large = 0;  // nodes
  // Inner loops first: nodes hoisted from one may also leave the enclosing loop.
  for (auto region = static_cast<RegionId>(graph.regions().size()) - 1; region > kTopRegion; --region) {
    if (!is_loop(graph.region(region))) continue;
    const std::vector<bool> read_outside = find_reads_outside(graph, region);
    rewrite_region(graph, region, [&](std::span<const Node> /*before*/, std::vector<Node>& loop) {
      std::vector<Node> prologue;
      for (const bool from_branches : {true, false}) {
        LoopHoister hoister(graph, region, from_branches);
        const int left = hoister.run(loop, read_outside);
        moved += left;
        if (left > 0) prologue = hoister.prologue();
        if (from_branches && left == 0) continue;
        too_large += hoister.too_large();
        break;
      }
      return prologue;
    });
  }
  return outcome_of(
      moved, too_large == 0
                 ? "everything in the loop depends on its state"
                 : fmt::format("what depends on the step alone would take more than {} MiB a value for all steps",
                               kMaxLiftedBytes >> 20U));
}

}  // namespace headroom
