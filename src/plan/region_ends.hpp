#pragma once

#include <vector>

#include "plan/storage_index.hpp"

namespace headroom {

/// States and results of regions, which copies at the end of a region would fill, get by without: with `arena` a
/// state's next value is written over the state, where nobody reads the old one afterwards; what a region returns lies
/// where the state does that it is, or where the region's own nodes can write it.
void place_region_ends(const Draft& draft, StorageIndex& index, bool arena);

/// What must be copied at a moment at which a region's results and next values are read, because they do not lie where
/// they should. All of it is read before any is written.
[[nodiscard]] std::vector<Assignment> copies_at(const Graph& graph, const std::vector<Place>& places,
                                                const Moment& moment);

/// A copy between storages, each copied whole.
struct StorageCopy {
  int to = -1;
  int from = -1;
  int index = 0;  ///< in the copies that were asked for
  friend bool operator==(const StorageCopy&, const StorageCopy&) = default;
};

/// Copies that are to happen at once (all read before any writes), in an order in which they can happen one by one. No
/// two write one storage. Where they go round in a circle, one of them is copied to storage `spare` first, and to where
/// it belongs from there: spare, spare + 1 and so on, one for each circle.
[[nodiscard]] std::vector<StorageCopy> in_order(std::vector<StorageCopy> copies, int spare);

}  // namespace headroom
