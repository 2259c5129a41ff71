#pragma once

#include <span>

#include "ir/graph.hpp"
#include "plan/program.hpp"

namespace headroom {

struct PlanOptions {
  /// The `arena` switch: views instead of copies, in-place results, addresses fixed in one arena.
  bool arena = false;
  /// The `streams` switch: steps that do not need each other run at the same time, on up to this many streams. More
  /// than one needs `arena`.
  int lanes = 1;
  /// The `tile` switch: runs of steps that go through the cache a few samples at a time. Needs `arena`.
  bool tile = false;
  /// The `graph` switch: a session records the program, or straight runs of steps, and replays that.
  bool graph = false;
  /// Each output that a node or a region makes has a storage of its own (StorageKind::kOutput), which can be memory of
  /// the caller's. Otherwise it lies among the activations or in a state.
  bool outputs_apart = false;
  /// What depends on params and constants alone is left to the weight store, which folds it once. Otherwise it runs.
  bool folds_weights = true;
};

/// Chooses a kernel for every node that the weight store does not fold, places every value and prepares the kernels.
/// Where a kernel cannot be prepared after all, the next that supports the node takes its place.
/// Throws Error naming the node (by module path), its types and each kernel's reason where none can run it.
[[nodiscard]] Program plan(const Graph& graph, const Target& target, const PlanOptions& options = {});
/// The same with other kernels than the device's list, best first. They must outlive the program.
[[nodiscard]] Program plan(const Graph& graph, const Target& target, const PlanOptions& options,
                           std::span<const Kernel* const> kernels);

}  // namespace headroom
