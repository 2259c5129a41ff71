#pragma once

#include <vector>

#include "plan/program.hpp"
#include "plan/timeline.hpp"

namespace headroom {

/// The place of every value, and the nodes that need no launch because their result is a view of another value or was
/// written directly into it.
struct Placements {
  Timeline timeline;
  std::vector<Storage> storages = {};    ///< without liveness and offsets
  std::vector<Lifetime> lifetimes = {};  ///< lifetimes of the storages, in moments of the timeline
  std::vector<Place> places = {};        ///< by ValueId; storage -1 for weights and unused values
  std::vector<bool> elided;              ///< by index in `chosen`
};

struct PlacementOptions {
  bool arena = false;
  bool outputs_apart = false;  ///< see PlanOptions
};

/// Places the values of a graph. Without `arena` every node writes a buffer of its own, except that a reshape shares
/// its operand's (as in every eager framework). With it values share storages as views, inside other values and as
/// joined rows (views.hpp), in place, and with states (region_ends.hpp).
[[nodiscard]] Placements place_values(const Graph& graph, const std::vector<ChosenKernel>& chosen,
                                      const std::vector<bool>& is_weight, const PlacementOptions& options);

}  // namespace headroom
