#pragma once

#include <vector>

#include "plan/storage_index.hpp"

namespace headroom {

/// Avoids the copies at the end of a region that would fill states and region results. With `arena` a state's next
/// value overwrites the state if nothing reads the old value afterwards. A region result uses the storage of the
/// state that it equals, or memory that the region's own nodes write directly.
void place_region_ends(const Draft& draft, StorageIndex& index, bool arena);

/// The copies needed at a moment at which a region's results and next values are read: those whose source is not yet
/// in its destination. All sources are read before any destination is written.
[[nodiscard]] std::vector<Assignment> copies_at(const Graph& graph, const std::vector<Place>& places,
                                                const Moment& moment);

/// A copy between storages, each copied whole.
struct StorageCopy {
  int to = -1;
  int from = -1;
  int index = 0;  ///< index in the requested copies
  friend bool operator==(const StorageCopy&, const StorageCopy&) = default;
};

/// Orders copies that are parallel by definition (all read before any writes) so that they can be executed one by
/// one. No two write one storage. Each cycle is broken by copying one of its storages to a spare storage first and
/// from there to its destination. Cycle i uses storage spare + i.
[[nodiscard]] std::vector<StorageCopy> in_order(std::vector<StorageCopy> copies, int spare);

}  // namespace headroom
