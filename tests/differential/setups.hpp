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

/// Passes that are run over a graph, and for which target.
struct PassSet {
  std::string name;  ///< "exact", "fuse-qkv", "exact+bf16"
  std::vector<std::string> passes;
  Target target;
  bool is_exact = true;  ///< keeps every number but for the rounding of sums
};

/// Every pass alone, the exact ones together, and with each way to lower precision: those of every device on targets
/// that have the units, for passes need none. What is for no device in particular is run for `device`.
[[nodiscard]] std::vector<PassSet> all_pass_sets(DeviceKind device);

/// Runs the set over the graph, verifying after every pass; counts what fired.
OptimizeReport run_passes(const PassSet& set, Graph& graph);

/// A way to plan a graph and to run it.
struct PlanSetup {
  std::string_view name;  ///< "arena"
  PlanOptions options;
};
[[nodiscard]] std::span<const PlanSetup> plan_setups(DeviceKind device);

}  // namespace headroom::differential
