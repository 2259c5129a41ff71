// merge-rows: loop { a = row(x, step), b = row(y, step), c = row(z, step) }
//          -> all = concat(x, y, z), loop { r = row(all, step), a = slice(r), b = slice(r), c = slice(r) }
//
// Hoisting leaves a table for every modulation, about 77 of them, and a loop that copies a row of each in a launch of
// some microseconds. Concatenated, the rows are one row and one copy. Its parts are views whenever memory is planned,
// and so are the parts of the concatenation. The tables that are joined have one dtype, differ in their last extent
// only, are computed before the loop, and are read with one index.

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// The properties that rows must share to be joined, as text.
std::string group_of(const Graph& graph, const Node& row) {
  const TensorType& type = graph.type(row.results[0]);
  std::string key = fmt::format("{} {} {} {}", row.region, index_of(row.input(Role::kIndex)), type.dtype,
                                graph.type(row.input(Role::kTable)).shape[0]);
  for (int axis = 0; axis + 1 < type.shape.rank(); ++axis) key += fmt::format(" {}", type.shape[axis]);
  return key;
}

class RowMerger {
 public:
  RowMerger(Graph& graph, RegionId region) : graph_(graph), region_(region), parent_(graph.region(region).parent) {}

  /// Joins the rows of the loop whose nodes are `loop`. Nodes that must run before it are in prologue(). Returns the
  /// number of rows joined.
  int run(std::span<const Node> before, std::vector<Node>& loop) {
    std::vector<bool> made_before(graph_.value_count(), false);
    for (const Node& node : before)
      for (const ValueId result : node.results) made_before[index_of(result)] = true;
    std::map<std::string, std::vector<std::size_t>> groups;
    std::vector<std::string> order;
    for (std::size_t i = 0; i < loop.size(); ++i) {
      const Node& node = loop[i];
      if (node.op != Op::kRow || node.region != region_ || graph_.type(node.results[0]).shape.rank() == 0 ||
          !made_before[index_of(node.input(Role::kTable))] ||
          node.input(Role::kIndex) != graph_.region(region_).counter)
        continue;
      const std::string key = group_of(graph_, node);
      if (groups[key].empty()) order.push_back(key);
      groups[key].push_back(i);
    }
    std::vector<Node> rows;
    int joined = 0;
    for (const std::string& key : order) {
      const auto most = schema_of(Op::kConcat).operands.most();
      for (std::span<const std::size_t> rest = groups[key]; rest.size() >= 2;) {
        const std::span<const std::size_t> members = rest.first(std::min(rest.size(), most));
        rest = rest.subspan(members.size());
        rows.push_back(join(loop, members));
        joined += static_cast<int>(members.size());
      }
    }
    loop.insert(loop.begin(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
    return joined;
  }

  [[nodiscard]] const std::vector<Node>& prologue() const { return prologue_; }

 private:
  /// The joint row; the members become its slices.
  Node join(std::vector<Node>& loop, std::span<const std::size_t> members) {
    std::vector<ValueId> tables;
    for (const std::size_t i : members) tables.push_back(loop[i].input(Role::kTable));
    const std::string path = loop[members.front()].path;
    const auto last = static_cast<std::int64_t>(graph_.type(loop[members.front()].results[0]).shape.rank()) - 1;
    prologue_.push_back(
        graph_.make_node(Op::kConcat, tables, Attributes(Op::kConcat, {{attr::kAxis, last + 1}}), path, parent_));
    Node row = graph_.make_node(Op::kRow, {prologue_.back().results[0], loop[members.front()].input(Role::kIndex)}, {},
                                path, region_);
    std::int64_t start = 0;
    for (const std::size_t i : members) {
      Node& node = loop[i];
      const std::int64_t size = graph_.type(node.results[0]).shape[-1];
      node.op = Op::kSlice;
      node.inputs = {row.results[0]};
      node.attributes = Attributes(Op::kSlice, {{attr::kAxis, last}, {attr::kStart, start}, {attr::kExtent, size}});
      start += size;
    }
    return row;
  }

  Graph& graph_;
  RegionId region_;
  RegionId parent_;
  std::vector<Node> prologue_;
};

}  // namespace

PassOutcome merge_rows(Graph& graph, const Target&) {
  int joined = 0;
  for (RegionId region = kTopRegion + 1; region < static_cast<RegionId>(graph.regions().size()); ++region)
    if (graph.region(region).kind == RegionKind::kLoop)
      rewrite_region(graph, region, [&](std::span<const Node> before, std::vector<Node>& loop) {
        RowMerger merger(graph, region);
        joined += merger.run(before, loop);
        return merger.prologue();
      });
  return outcome_of(joined, "no loop reads rows of several tables");
}

}  // namespace headroom
