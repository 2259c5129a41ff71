#include "plan/placement.hpp"

#include <algorithm>
#include <utility>

#include "plan/draft.hpp"
#include "plan/in_place.hpp"
#include "plan/inside.hpp"
#include "plan/region_ends.hpp"
#include "plan/storage_index.hpp"
#include "plan/views.hpp"

namespace headroom {

Placements place_values(const Graph& graph, const std::vector<ChosenKernel>& chosen, const std::vector<bool>& is_weight,
                        bool arena) {
  Draft draft(graph, chosen, is_weight);
  if (arena) place_inside(draft);
  place_views(draft, arena);
  StorageIndex index(draft);
  place_region_ends(draft, index,
                    arena);  // first: these have one place to go, an operand to overwrite can be found elsewhere
  if (arena) overwrite_operands(draft, index);
  std::vector<Storage> storages;
  std::vector<Place> places;
  std::vector<Lifetime> lifetimes;
  index.finish(storages, places, lifetimes);
  return {.timeline = std::move(draft.timeline),
          .storages = std::move(storages),
          .lifetimes = std::move(lifetimes),
          .places = std::move(places),
          .elided = std::move(draft.elided)};
}

std::vector<RegionCopy> copies_at(const Graph& graph, const std::vector<Place>& places, const Moment& moment) {
  std::vector<RegionCopy> copies;
  const auto add = [&](ValueId to, ValueId from) {
    const auto is_same = [&](const RegionCopy& copy) { return places[index_of(copy.to)] == places[index_of(to)]; };
    if (places[index_of(to)] != places[index_of(from)] && std::ranges::none_of(copies, is_same))
      copies.push_back({to, from});
  };
  const Region& region = graph.region(moment.region);
  const bool ran = moment.kind == Moment::Kind::kEnd;
  if (ran)
    for (const StateUpdate& update : graph.state_updates())
      if (update.region == moment.region) add(update.value, update.next);
  const bool is_else = region.kind == RegionKind::kElse;
  for (const RegionResult& result : (is_else ? graph.region(region.branch) : region).results)
    add(result.value, ran && !is_else ? result.from : result.otherwise);
  return copies;
}

}  // namespace headroom
