#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "ir/graph.hpp"
#include "passes/pass.hpp"
#include "passes/ranks/token_sharing.hpp"
#include "plan/program.hpp"

namespace headroom {

/// A planned program, and which of the requested switches applied.
struct Compiled {
  std::shared_ptr<const Program> program;
  std::vector<PassRecord> passes;
  std::vector<std::string> applied;  ///< switches that changed something, as written: "fuse", "steps=8"
  std::vector<Declined> declined;    ///< switches that could not apply, with the reason
  DType baseline = DType::kF32;      ///< the program's dtype, unless a switch changes it
  double optimize_ms = 0;
  double plan_ms = 0;
};

struct CompileOptions {
  /// `steps` and `sampler` cannot be applied to a finished graph. Code that built the graph for them sets this flag;
  /// otherwise the switches are recorded as declined.
  bool steps_applied = false;
  /// The same for the switches of live streams.
  bool stream_applied = false;
  /// The dtype of every configuration of a comparison, unless a switch changes it: f32 or bf16. For bf16 the graph is
  /// converted as by the switch `bf16`, at the same position among the passes. Asking for `bf16` as well is then
  /// declined.
  DType baseline = DType::kF32;
  /// See PlanOptions::outputs_apart.
  bool outputs_apart = false;
  /// Inputs that are new in each run of the program, while others may be kept. Under `hoist`, computations that depend
  /// on none of them, nor on a state, become Program::setup (passes/split_setup.hpp). With an empty list that is all
  /// that precedes the steps of a request. Nothing becomes a setup if there is no list.
  std::optional<std::vector<std::string>> fresh_inputs = std::nullopt;
  /// For `cp`: the tokens that ranks share, and the rank whose program it is. Nothing if there is one rank alone.
  std::optional<TokenSharing> sharing = std::nullopt;
};

/// Optimizes and plans a graph in f32 under the switches.
[[nodiscard]] Compiled compile(Graph graph, const SwitchSet& switches, const DeviceTarget& target,
                               const CompileOptions& options = {});

}  // namespace headroom
