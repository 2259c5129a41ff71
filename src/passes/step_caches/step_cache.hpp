#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/builder.hpp"
#include "passes/step_caches/step_cache_options.hpp"

/// What the passes of step caches have in common: a part of a denoise loop that some steps skip.
namespace headroom {

/// Outputs of a loop with a cache, f32 [steps]: whether each step was computed (1 or 0), and, where there is one, what was
/// held against the threshold (0 in the first step).
inline constexpr std::string_view kComputedSteps = "computed_steps";
inline constexpr std::string_view kCacheDistances = "cache_distances";
/// Output of a loop that records: what `meancache` would keep of each step, f32 [steps, elements].
inline constexpr std::string_view kVelocities = "velocities";

/// A denoise loop whose steps are a row of blocks, and the residual stream that goes through them.
struct BlockLoop {
  RegionId loop = kNoRegion;
  std::size_t begin = 0;      ///< in the schedule: the first node of the first block
  std::size_t rest = 0;       ///< behind its last one
  std::size_t end = 0;        ///< behind the last node of the last block
  std::vector<bool> follows;  ///< by place: a view behind the last block that all but gives its result
  ValueId enters = kNoValue;  ///< the stream as the first block finds it
  ValueId passes = kNoValue;  ///< as it leaves the first block
  ValueId leaves = kNoValue;  ///< as it leaves the last one
};
/// The loop, or why there is none: a sentence.
[[nodiscard]] std::variant<BlockLoop, std::string> find_block_loop(const Graph& graph);

/// The one loop of the graph that a cache may work on, or why there is none: it runs more than once, and has no other
/// regions within.
[[nodiscard]] std::variant<RegionId, std::string> find_step_loop(const Graph& graph);

/// Nodes of a loop that are to be skipped where a step is a hit; all that is read of them is one value.
struct Skipped {
  RegionId loop = kNoRegion;
  std::vector<bool> nodes;  ///< by place in the schedule
  ValueId result = kNoValue;
};
/// What stands in their place.
struct Instead {
  std::function<ValueId(Builder& b)> decide;  ///< in the loop, before them: a bool scalar, true where the step is a hit
  std::function<ValueId(Builder& b)> reuse;   ///< where it is: the result
  std::function<void(Builder& b)> keep;       ///< where it is not, after them: what is kept
};
/// Moves them into the else of an `if` that the loop gets. What stands between them, and does not need them, goes in front.
void skip_nodes(Graph& graph, const Skipped& skipped, const Instead& instead);

/// Decides about a step, under the options, by how far it is from the one that was computed last: a hit is no further
/// than the threshold, and no NaN. What a cache carries from step to step begins anew in every request, because
/// the first step is computed.
class StepDecision {
 public:
  /// `name` is that of its states: "fbcache".
  StepDecision(Graph& graph, RegionId loop, StepCacheOptions options, std::string name);

  /// Whether the step is a hit. Notes it, and the distance, an f32 scalar, in outputs of the graph. A schedule needs none.
  ValueId decide(Builder& b, ValueId distance = kNoValue);
  /// Steps since the one that was computed last, this one among them: 1, 2, ..., an f32 scalar; there once decide() has
  /// been called, where the options forecast.
  [[nodiscard]] ValueId steps_since() const { return since_; }
  /// Whether this is the first step: a bool scalar; likewise.
  [[nodiscard]] ValueId is_first() const { return is_first_; }

 private:
  [[nodiscard]] std::vector<double> thresholds() const;

  Graph& graph_;
  RegionId loop_;
  StepCacheOptions options_;
  std::string name_;
  std::int64_t steps_;
  ValueId since_ = kNoValue;
  ValueId is_first_ = kNoValue;
};

/// A tensor that is kept when a step is computed, for those that are not: as it was, or as order 1 of Taylor's series
/// has it go on (Liu et al., "From Reusing to Forecasting", 2025).
class KeptTensor {
 public:
  KeptTensor(Graph& graph, const std::string& name, const TensorType& type, bool forecasts);

  [[nodiscard]] ValueId read(Builder& b, const StepDecision& decision) const;
  void keep(Builder& b, const StepDecision& decision, ValueId value) const;

 private:
  ValueId value_;
  ValueId slope_ = kNoValue;  // by step
};

/// Adds the output kVelocities, of every step as it is computed. Or says why there is no velocity: a sentence.
[[nodiscard]] std::optional<std::string> record_velocities(Graph& graph);

/// mean |a - b| / mean |b|, an f32 scalar.
[[nodiscard]] ValueId relative_distance(Builder& b, ValueId now, ValueId before);

}  // namespace headroom
