#include "ir/schedule.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

RegionId parent_of(const Graph& graph, RegionId region) {
  return graph.regions()[static_cast<std::size_t>(region)].parent;
}

/// The region directly in `outer` that holds `inner`, or -1 where there is none.
RegionId child_towards(const Graph& graph, RegionId outer, RegionId inner) {
  while (inner >= 0 && parent_of(graph, inner) != outer) inner = parent_of(graph, inner);
  return inner;
}

}  // namespace

bool is_within(const Graph& graph, RegionId inner, RegionId outer) {
  while (inner > outer) inner = parent_of(graph, inner);  // a parent's id is smaller than its child's
  return inner == outer;
}

std::vector<ScheduleItem> schedule_of(const Graph& graph, RegionId region, std::size_t begin, std::size_t end) {
  std::vector<ScheduleItem> items;
  std::vector<bool> placed(graph.regions().size(), false);
  for (std::size_t i = begin; i < end;) {
    const RegionId node_region = graph.nodes()[i].region;
    if (node_region == region) {
      items.push_back({-1, i, i + 1});
      ++i;
      continue;
    }
    const RegionId loop = child_towards(graph, region, node_region);
    HR_CHECK_LE(0, loop);
    HR_CHECK(!placed[static_cast<std::size_t>(loop)]);
    placed[static_cast<std::size_t>(loop)] = true;
    std::size_t last = i + 1;
    while (last < end && is_within(graph, graph.nodes()[last].region, loop)) ++last;
    items.push_back({loop, i, last});
    i = last;
  }
  for (std::size_t loop = 1; loop < graph.regions().size(); ++loop) {
    if (graph.regions()[loop].parent == region && !placed[loop])
      items.push_back({static_cast<RegionId>(loop), end, end});
  }
  return items;
}

std::vector<ScheduleItem> schedule_of(const Graph& graph) {
  return schedule_of(graph, kTopRegion, 0, graph.nodes().size());
}

}  // namespace headroom
