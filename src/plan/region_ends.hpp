#pragma once

#include "plan/storage_index.hpp"

namespace headroom {

/// States and results of regions, which copies at the end of a region would fill, get by without: with `arena` a
/// state's next value is written over the state, where nobody reads the old one afterwards; what a region returns lies
/// where the state does that it is, or where the region's own nodes can write it.
void place_region_ends(const Draft& draft, StorageIndex& index, bool arena);

}  // namespace headroom
