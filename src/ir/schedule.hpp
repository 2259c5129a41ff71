#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// What stands in one region: a node, or a nested region with all that is in it.
struct ScheduleItem {
  RegionId region = kNoRegion;  ///< a loop, or an `if` by its then; kNoRegion for a node
  std::size_t node = 0;         ///< index in graph.nodes()
  friend bool operator==(const ScheduleItem&, const ScheduleItem&) = default;
};

/// What stands in each region of a graph, in the order it runs. A region without nodes (an `if` that only chooses
/// between values, a loop that only swaps states) stands before the first thing in its parent that reads one of its
/// results, or that updates a state that it reads, else at its parent's end; several in one place run in the order of
/// their ids.
/// Needs sound regions: known, nested and contiguous.
class Schedule {
 public:
  explicit Schedule(const Graph& graph);

  /// The else of an `if` is no item of its parent: it stands with its then.
  [[nodiscard]] std::span<const ScheduleItem> items(RegionId region) const { return items_[index_of(region)]; }

 private:
  std::vector<std::vector<ScheduleItem>> items_;  // by region
};

}  // namespace headroom
