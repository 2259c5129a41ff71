#pragma once

#include <vector>

#include "plan/program.hpp"
#include "plan/timeline.hpp"

namespace headroom {

/// Where every value lies, and which nodes need no launch because their result is a view of, or a place inside, another
/// value.
struct Placements {
  Timeline timeline;
  std::vector<Storage> storages = {};    ///< without liveness and offsets
  std::vector<Lifetime> lifetimes = {};  ///< of those, in moments of the timeline
  std::vector<Place> places = {};        ///< by ValueId; storage -1 for weights and values nobody touches
  std::vector<bool> elided;              ///< by index in `chosen`
};

struct PlacementOptions {
  bool arena = false;
  bool outputs_apart = false;  ///< see PlanOptions
};

/// Places the values of a graph. Without `arena` every node writes a buffer of its own, except that a reshape shares
/// its operand's (as in every eager framework). With it values share storages as views, places inside and rows joined (views.hpp), in place, and
/// with states (region_ends.hpp).
[[nodiscard]] Placements place_values(const Graph& graph, const std::vector<ChosenKernel>& chosen,
                                      const std::vector<bool>& is_weight, const PlacementOptions& options);

}  // namespace headroom
