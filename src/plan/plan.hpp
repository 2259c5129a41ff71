#pragma once

#include <span>

#include "ir/graph.hpp"
#include "plan/program.hpp"

namespace headroom {

struct PlanOptions {
  /// The `arena` switch: views instead of copies, in-place results, addresses fixed in one arena.
  bool arena = false;
  /// The `streams` switch: independent steps run at the same time, on up to this many streams. More than one needs
  /// `arena`.
  int lanes = 1;
  /// The `tile` switch: consecutive steps run for some samples at a time, so that data stays in the cache. Needs
  /// `arena`.
  bool tile = false;
  /// The `graph` switch: a session captures the program, or its straight runs of steps, and replays the capture.
  bool graph = false;
  /// Each output that a node or a region makes has a storage of its own (StorageKind::kOutput), which can be the
  /// caller's memory. Otherwise it is placed among the activations or in a state.
  bool outputs_apart = false;
  /// Values that depend only on params and constants are left to the weight store, which folds them once. Otherwise
  /// the program computes them.
  bool folds_weights = true;
};

/// Chooses a kernel for every node that the weight store does not fold, places every value and prepares the kernels.
/// If a chosen kernel cannot be prepared, the next that supports the node replaces it. Throws Error naming the node
/// (by module path), its types and the reason of each kernel if none can run it.
[[nodiscard]] Program plan(const Graph& graph, const DeviceTarget& target, const PlanOptions& options = {});
/// The same with `kernels`, best first, in place of the device's list. They must outlive the program.
[[nodiscard]] Program plan(const Graph& graph, const DeviceTarget& target, const PlanOptions& options,
                           std::span<const Kernel* const> kernels);

}  // namespace headroom
