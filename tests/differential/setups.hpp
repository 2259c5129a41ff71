#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.hpp"
#include "passes/pass.hpp"
#include "plan/plan.hpp"

namespace headroom::differential {

/// Passes to run over a graph, and their target.
struct PassSet {
  std::string name;  ///< "exact", "fuse-qkv", "exact+bf16"
  std::vector<std::string> passes;
  Target target;
  bool is_exact = true;  ///< keeps all values except for the rounding of sums
};

/// Every pass alone, the exact ones together, and with each method to lower precision. Passes for any device are
/// included, on targets that have the units, because passes do not run on the device. Passes for no particular device
/// use `device` as their target.
[[nodiscard]] std::vector<PassSet> all_pass_sets(DeviceKind device);

/// Runs the set over the graph and verifies it after every pass; counts the changes.
OptimizeReport run_passes(const PassSet& set, Graph& graph);

/// A configuration for planning and running a graph.
struct PlanSetup {
  std::string_view name;  ///< "arena"
  PlanOptions options;
};
[[nodiscard]] std::span<const PlanSetup> plan_setups(DeviceKind device);

}  // namespace headroom::differential
