#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/switches.hpp"
#include "base/target.hpp"
#include "ir/graph.hpp"
#include "passes/pass.hpp"
#include "plan/program.hpp"

namespace headroom {

/// A program and what became of the switches asked for.
struct Compiled {
  std::shared_ptr<const Program> program;
  std::vector<PassRecord> passes;
  std::vector<std::string> applied;  ///< switches that changed something, as written: "fuse", "steps=8"
  std::vector<Declined> declined;    ///< switches that could not apply, with the reason
  double optimize_ms = 0;
  double plan_ms = 0;
};

/// Optimizes and plans a graph under the switches. `steps` is not for a graph to apply: whoever built the graph for
/// that many steps says so by `steps_applied`; otherwise the switch is recorded as declined.
[[nodiscard]] Compiled compile(Graph graph, const SwitchSet& switches, const Target& target,
                               bool steps_applied = false);

}  // namespace headroom
