#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/graph.hpp"

namespace headroom::differential {

/// What to change about a graph while it is copied. What nothing reads then is left out.
struct Edit {
  std::set<std::size_t> dropped_outputs = {};  ///< by index
  std::set<std::size_t> dropped_updates = {};  ///< likewise
  std::set<ValueId> cut = {};                  ///< these become inputs
  std::map<ValueId, ValueId> instead = {};     ///< read in the place of these: what stands before them
  RegionId unwrapped = kNoRegion;              ///< its nodes stand in its parent; another branch of it is dropped
  std::map<RegionId, std::int64_t> trip_counts = {};
  std::set<ValueId> untagged = {};       ///< views and rows that become row-major
  bool shows_unread = false;             ///< results of the top region that nothing reads become outputs
  std::int64_t extent = 0, smaller = 0;  ///< this extent becomes that one, wherever it stands
};

/// The changed graph, verified; nothing where the change leaves no sound one.
[[nodiscard]] std::optional<Graph> rebuild(const Graph& graph, const Edit& edit);

}  // namespace headroom::differential
