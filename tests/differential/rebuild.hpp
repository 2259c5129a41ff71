#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/graph.hpp"

namespace headroom::differential {

/// Changes to a graph while it is copied. Values that are then unused are left out.
struct Edit {
  std::set<std::size_t> dropped_outputs = {};  ///< by index
  std::set<std::size_t> dropped_updates = {};  ///< likewise
  std::set<ValueId> cut = {};                  ///< these become inputs
  std::map<ValueId, ValueId> instead = {};     ///< reads of the key are replaced by reads of this earlier value
  RegionId unwrapped = kNoRegion;              ///< its nodes move to its parent; its other branch is dropped
  std::map<RegionId, std::int64_t> trip_counts = {};
  std::set<ValueId> untagged = {};       ///< views and rows that become row-major
  bool shows_unread = false;             ///< results of the top region that nothing reads become outputs
  std::int64_t extent = 0, smaller = 0;  ///< every occurrence of `extent` becomes `smaller`
};

/// The changed and verified graph; nothing if the change leaves no valid graph.
[[nodiscard]] std::optional<Graph> rebuild(const Graph& graph, const Edit& edit);

}  // namespace headroom::differential
