#include "differential/shrink.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "differential/rebuild.hpp"

namespace headroom::differential {
namespace {

constexpr int kMostTries = 1500;
constexpr std::size_t kKindLength = 24;  // the start of an exception's message, which identifies its kind

bool is_same_kind(const Failure& a, const Failure& b) {
  return a.threw == b.threw && (!a.threw || a.message.substr(0, kKindLength) == b.message.substr(0, kKindLength));
}

class Shrinker {
 public:
  Shrinker(Checker& checker, const Graph& graph, const CheckOptions& options, const Failure& failure)
      : checker_(checker), graph_(graph), options_(options), failure_(failure) {
    options_.only = failure;
  }

  std::pair<Graph, Failure> run() {
    try_edit({.shows_unread = true});  // the first change drops unused values, which may cause the failure
    std::size_t before = 0;
    do {
      before = cost();
      drop_results();
      drop_layouts();
      cut_nodes();
      flatten_regions();
      lower_extents();
    } while (cost() < before && tries_ < kMostTries);
    return {graph_, failure_};
  }

 private:
  /// Each change must lower this cost, so that shrinking terminates.
  std::size_t cost() const {
    std::size_t cost = 0;
    for (const Region& region : graph_.regions()) cost += 40 + 2 * static_cast<std::size_t>(region.trip_count);
    cost += 20 * (graph_.outputs().size() + graph_.state_updates().size() + graph_.nodes().size());
    for (const Node& node : graph_.nodes())
      for (const ValueId result : node.results) {
        cost += graph_.type(result).layout == Layout::kChannelsLast ? 1 : 0;
        for (const std::int64_t extent : graph_.type(result).shape.dims()) cost += extent > 1 ? 1 : 0;
      }
    return cost + extents().size();
  }

  bool try_edit(const Edit& edit) {
    if (++tries_ > kMostTries) return false;
    std::optional<Graph> smaller = rebuild(graph_, edit);
    if (!smaller) return false;
    const std::optional<Failure> failure = checker_.check(*smaller, options_);
    if (!failure || !is_same_kind(*failure, failure_)) return false;
    graph_ = std::move(*smaller);
    failure_ = *failure;
    return true;
  }

  void drop_results() {
    for (std::size_t i = graph_.outputs().size(); i-- > 0;) try_edit({.dropped_outputs = {i}});
    for (std::size_t i = graph_.state_updates().size(); i-- > 0;) try_edit({.dropped_updates = {i}});
  }

  /// Removes layouts, together with those of values computed from them.
  void drop_layouts() {
    for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
      if (i >= graph_.nodes().size()) continue;
      const ValueId result = graph_.nodes()[i].results[0];
      if (graph_.type(result).layout == Layout::kChannelsLast) try_edit({.untagged = {result}});
    }
  }

  /// Replaces a node's result by an input, or by one of the node's operands.
  void cut_nodes() {
    for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
      if (i >= graph_.nodes().size()) continue;
      const Node node = graph_.nodes()[i];
      if (std::ranges::any_of(node.inputs, [&](ValueId input) {
            return graph_.type(input) == graph_.type(node.results[0]) &&
                   try_edit({.instead = {{node.results[0], input}}});
          }))
        continue;
      try_edit({.cut = {node.results.begin(), node.results.end()}});
    }
    for (std::size_t r = graph_.regions().size(); r-- > 1;) {
      if (r >= graph_.regions().size()) continue;
      for (const RegionResult& result : std::vector(graph_.regions()[r].results))
        if (try_edit({.cut = {result.value}})) break;
    }
  }

  void flatten_regions() {
    for (std::size_t r = graph_.regions().size(); r-- > 1;) {
      if (r >= graph_.regions().size()) continue;
      const auto id = static_cast<RegionId>(r);
      if (graph_.region(id).kind == RegionKind::kElse || try_edit({.unwrapped = id})) continue;
      for (const std::int64_t trips : {1, 2})
        if (graph_.region(id).trip_count > trips && try_edit({.trip_counts = {{id, trips}}})) break;
    }
  }

  std::set<std::int64_t> extents() const {
    std::set<std::int64_t> extents;
    for (std::size_t i = 0; i < graph_.value_count(); ++i)
      for (const std::int64_t extent : graph_.type(static_cast<ValueId>(i)).shape.dims())
        if (extent > 1) extents.insert(extent);
    return extents;
  }

  void lower_extents() {
    for (const std::int64_t extent : extents())
      for (const std::int64_t smaller : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, extent / 2})
        if (smaller < extent && smaller > 0 && try_edit({.extent = extent, .smaller = smaller})) break;
  }

  Checker& checker_;
  Graph graph_;
  CheckOptions options_;
  Failure failure_;
  int tries_ = 0;
};

}  // namespace

std::pair<Graph, Failure> shrink(Checker& checker, const Graph& graph, const CheckOptions& options,
                                 const Failure& failure) {
  return Shrinker(checker, graph, options, failure).run();
}

}  // namespace headroom::differential
