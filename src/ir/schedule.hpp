#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// What stands in one region: a node, or a nested loop with all that is in it.
struct ScheduleItem {
  RegionId loop = -1;     ///< the nested loop, or -1 for a node
  std::size_t begin = 0;  ///< first of its nodes in graph.nodes()
  std::size_t end = 0;    ///< one past the last
};

/// The items of `region`, whose nodes (nested ones included) are [begin, end), in the order they run. A loop without
/// nodes still commits its state updates; it runs after everything else in its parent, in the order of region ids.
/// Needs sound regions: known, nested and contiguous.
[[nodiscard]] std::vector<ScheduleItem> schedule_of(const Graph& graph, RegionId region, std::size_t begin,
                                                    std::size_t end);
/// The same for the whole program.
[[nodiscard]] std::vector<ScheduleItem> schedule_of(const Graph& graph);

/// Whether `inner` is `outer` or nested in it.
[[nodiscard]] bool is_within(const Graph& graph, RegionId inner, RegionId outer);

}  // namespace headroom
