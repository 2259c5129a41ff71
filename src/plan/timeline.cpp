#include "plan/timeline.hpp"

#include <algorithm>

namespace headroom {

int needed_until(std::span<const Lifetime> loops, int first, int read) {
  const auto repeats = [&](const Lifetime& loop) {
    return first < loop.first && loop.first <= read && read <= loop.last;
  };
  const auto outermost = std::ranges::find_if(loops, repeats);
  return outermost == loops.end() ? read : outermost->last;
}

Timeline::Timeline(const Graph& graph, const std::vector<ChosenKernel>& chosen)
    : of_node_(chosen.size()), begin_(graph.regions().size()), end_(graph.regions().size()) {
  std::vector<int> positions(graph.nodes().size(), -1);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    positions[static_cast<std::size_t>(chosen[i].node)] = static_cast<int>(i);
  add_region(graph, Schedule(graph), positions, kTopRegion);
  for (std::size_t r = 0; r < begin_.size(); ++r)  // a parent's id is smaller than its child's
    if (graph.regions()[r].kind == RegionKind::kLoop) loops_.push_back({begin_[r], end_[r]});
}

void Timeline::add_region(const Graph& graph, const Schedule& schedule, const std::vector<int>& positions,
                          RegionId id) {
  begin_[index_of(id)] = add({.kind = Moment::Kind::kBegin, .region = id});
  for (const ScheduleItem& item : schedule.items(id)) {
    if (item.region == kNoRegion) {
      if (const int i = positions[item.node]; i >= 0)
        of_node_[static_cast<std::size_t>(i)] = add({.kind = Moment::Kind::kNode, .node = i, .region = id});
      continue;
    }
    add_region(graph, schedule, positions, item.region);
    const Region& inner = graph.region(item.region);
    if (inner.branch != kNoRegion)
      add_region(graph, schedule, positions, inner.branch);
    else if (inner.kind == RegionKind::kThen)
      add({.kind = Moment::Kind::kOtherwise, .region = item.region});
  }
  end_[index_of(id)] = add({.kind = Moment::Kind::kEnd, .region = id});
}

int Timeline::add(const Moment& moment) {
  moments_.push_back(moment);
  return static_cast<int>(moments_.size()) - 1;
}

}  // namespace headroom
