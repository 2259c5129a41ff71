#include "plan/timeline.hpp"

#include <cstddef>

#include "ir/schedule.hpp"

namespace headroom {
namespace {

/// Writes down moments in order.
class Walk {
 public:
  Walk(const Graph& graph, const std::vector<ChosenKernel>& chosen)
      : graph_(graph), schedule_(graph), chosen_(graph.nodes().size(), -1) {
    for (std::size_t i = 0; i < chosen.size(); ++i)
      chosen_[static_cast<std::size_t>(chosen[i].node)] = static_cast<int>(i);
    region(kTopRegion);
  }

  std::vector<Moment> moments;

 private:
  void region(RegionId id) {
    moments.push_back({.kind = Moment::Kind::kBegin, .region = id});
    for (const ScheduleItem& item : schedule_.items(id)) {
      if (item.region == kNoRegion) {
        if (const int i = chosen_[item.node]; i >= 0)
          moments.push_back({.kind = Moment::Kind::kNode, .node = i, .region = id});
        continue;
      }
      region(item.region);
      const Region& inner = graph_.region(item.region);
      if (inner.kind != RegionKind::kThen) continue;
      if (inner.branch != kNoRegion)
        region(inner.branch);
      else
        moments.push_back({.kind = Moment::Kind::kOtherwise, .region = item.region});
    }
    moments.push_back({.kind = Moment::Kind::kEnd, .region = id});
  }

  const Graph& graph_;
  Schedule schedule_;
  std::vector<int> chosen_;  // by node, -1 where it does not run
};

Loops loops_of(const Graph& graph, const std::vector<int>& begin, const std::vector<int>& end, int moments) {
  std::vector<Lifetime> loops;
  for (std::size_t r = 0; r < begin.size(); ++r)  // a parent's id is smaller than its child's
    if (graph.regions()[r].kind == RegionKind::kLoop) loops.push_back({begin[r], end[r]});
  return Loops(moments, std::move(loops));
}

}  // namespace

Timeline::Timeline(const Graph& graph, const std::vector<ChosenKernel>& chosen)
    : moments_(Walk(graph, chosen).moments),
      of_node_(chosen.size()),
      begin_(graph.regions().size()),
      end_(graph.regions().size()),
      otherwise_(graph.regions().size(), -1),
      loops_(0, {}) {
  for (int at = 0; at < after_all(); ++at) {
    const Moment& moment = moments_[static_cast<std::size_t>(at)];
    switch (moment.kind) {
      case Moment::Kind::kNode:
        of_node_[static_cast<std::size_t>(moment.node)] = at;
        break;
      case Moment::Kind::kBegin:
        begin_[index_of(moment.region)] = at;
        break;
      case Moment::Kind::kEnd:
        end_[index_of(moment.region)] = at;
        if (const Region& region = graph.region(moment.region); region.kind == RegionKind::kElse)
          otherwise_[index_of(region.branch)] = at;
        break;
      case Moment::Kind::kOtherwise:
        otherwise_[index_of(moment.region)] = at;
        break;
    }
  }
  loops_ = loops_of(graph, begin_, end_, after_all() + 1);
}

}  // namespace headroom
