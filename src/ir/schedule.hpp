#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// One item of a region: a node, or a nested region with its contents.
struct ScheduleItem {
  RegionId region = kNoRegion;  ///< a loop, or an `if` (given by its then); kNoRegion for a node
  std::size_t node = 0;         ///< index in graph.nodes()
  friend bool operator==(const ScheduleItem&, const ScheduleItem&) = default;
};

/// The items of each region of a graph, in execution order. A region without nodes is possible: an `if` that only
/// selects between values, a loop that only swaps states. It is placed before the first item of its parent that reads
/// one of its results or updates a state that it reads, else at the parent's end. Several regions in one place run in
/// the order of their ids. Requires valid regions: known, nested and contiguous.
class Schedule {
 public:
  explicit Schedule(const Graph& graph);

  /// The else of an `if` is no item of its parent; it belongs to the item of its then.
  [[nodiscard]] std::span<const ScheduleItem> items(RegionId region) const { return items_[index_of(region)]; }

 private:
  std::vector<std::vector<ScheduleItem>> items_;  // indexed by region
};

}  // namespace headroom
