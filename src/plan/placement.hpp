#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "plan/choose.hpp"
#include "plan/lifetime.hpp"
#include "plan/program.hpp"
#include "plan/timeline.hpp"

namespace headroom {

/// Where every value lies, and which nodes need no launch because their result is a view of, or a place inside, another
/// value.
struct Placements {
  Timeline timeline;
  std::vector<Storage> storages;    ///< without liveness and offsets
  std::vector<Lifetime> lifetimes;  ///< of those, in moments of the timeline
  std::vector<Place> places;        ///< by ValueId; storage -1 for weights and values nobody touches
  std::vector<bool> elided;         ///< by index in `chosen`
};

/// Places the values of a graph. Without `arena` every node writes a buffer of its own, except that a reshape shares
/// its operand's (as in every eager framework). With it values share storages as views (views.hpp), places inside
/// (inside.hpp), rows joined (joined.hpp), in place (in_place.hpp) and with states (region_ends.hpp).
[[nodiscard]] Placements place_values(const Graph& graph, const std::vector<ChosenKernel>& chosen,
                                      const std::vector<bool>& is_weight, bool arena);

/// A value that is copied when a region ends.
struct RegionCopy {
  ValueId to = kNoValue;  ///< a state, or what the region returns
  ValueId from = kNoValue;
};

/// What must be copied at a moment at which a region's results and next values are read, because they do not lie where
/// they should. All of it is read before any is written.
[[nodiscard]] std::vector<RegionCopy> copies_at(const Graph& graph, const std::vector<Place>& places,
                                                const Moment& moment);

}  // namespace headroom
