#pragma once

#include <vector>

namespace headroom {

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
