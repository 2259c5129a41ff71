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
  DType baseline = DType::kF32;      ///< what the program computes in where no switch says otherwise
  double optimize_ms = 0;
  double plan_ms = 0;
};

struct CompileOptions {
  /// `steps` and `sampler` are not for a graph to apply: whoever built the graph for them says so here; otherwise the
  /// switches are recorded as declined.
  bool steps_applied = false;
  /// The same of the switches of live streams.
  bool stream_applied = false;
  /// What every configuration of a comparison computes in, unless a switch changes it: f32, or bf16, which is the graph
  /// as the switch `bf16` converts it, where that pass stands in the pipeline. Asking for `bf16` on top is then
  /// declined.
  DType baseline = DType::kF32;
  /// See PlanOptions::outputs_apart.
  bool outputs_apart = false;
  /// Inputs that are new in each run, of a program that runs again and again while others seldom change: under `hoist` what depends on
  /// none of them becomes Program::setup (passes/split_setup.hpp). None where nothing is known of its runs.
  std::vector<std::string> fresh_inputs = {};
};

/// Optimizes and plans a graph in f32 under the switches.
[[nodiscard]] Compiled compile(Graph graph, const SwitchSet& switches, const Target& target,
                               const CompileOptions& options = {});

}  // namespace headroom
