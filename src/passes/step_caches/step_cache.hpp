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

/// Code shared by the passes of step caches, which skip a part of a denoise loop in some steps.
namespace headroom {

/// Outputs of a loop with a cache, f32 [steps]: whether each step was computed (1 or 0), and, if there is one, the
/// distance compared with the threshold (0 in the first step).
inline constexpr std::string_view kComputedSteps = "computed_steps";
inline constexpr std::string_view kCacheDistances = "cache_distances";
/// Output of a recording loop: the value that `meancache` would keep of each step, f32 [steps, elements].
inline constexpr std::string_view kVelocities = "velocities";

/// A denoise loop whose steps are a sequence of blocks, and the residual stream through them.
struct BlockLoop {
  RegionId loop = kNoRegion;
  std::size_t begin = 0;      ///< schedule index of the first node of the first block
  std::size_t rest = 0;       ///< one past the last node of the first block
  std::size_t end = 0;        ///< one past the last node of the last block
  std::vector<bool> follows;  ///< by schedule index: slices after the last block that cut the stream out of its result
  ValueId enters = kNoValue;  ///< the stream at the input of the first block
  ValueId passes = kNoValue;  ///< at the output of the first block
  ValueId leaves = kNoValue;  ///< at the output of the last block
};
/// The loop, or the reason why there is none: a sentence.
[[nodiscard]] std::variant<BlockLoop, std::string> find_block_loop(const Graph& graph);

/// The only loop of the graph that a cache may work on, or the reason why there is none. The loop runs more than
/// once, and contains no other regions.
[[nodiscard]] std::variant<RegionId, std::string> find_step_loop(const Graph& graph);

/// Nodes of a loop that are skipped if a step is a hit. Exactly one of their values is read by other nodes.
struct Skipped {
  RegionId loop = kNoRegion;
  std::vector<bool> nodes;  ///< by schedule index
  ValueId result = kNoValue;
};
/// The nodes that replace skipped ones.
struct Instead {
  std::function<ValueId(Builder& b)> decide;  ///< in the loop, before them: a bool scalar, true if the step is a hit
  std::function<ValueId(Builder& b)> reuse;   ///< for a hit: the result
  std::function<void(Builder& b)> keep;       ///< for a miss, after them: stores the values to keep
};
/// Moves the skipped nodes into the else branch of a new `if` in the loop. Nodes between them that do not depend on
/// them are moved before the `if`.
void skip_nodes(Graph& graph, const Skipped& skipped, const Instead& instead);

/// Decides about a step, under the options, by its distance from the step that was computed last. It is a hit if the
/// distance is no NaN and at most the threshold. The state of a cache starts anew in every request, because the first
/// step is always computed.
class StepDecision {
 public:
  /// `name` is the prefix of its states' names: "fbcache".
  StepDecision(Graph& graph, RegionId loop, StepCacheOptions options, std::string name);

  /// Whether the step is a hit. Records the decision, and the distance, an f32 scalar, in outputs of the graph. A
  /// schedule needs no distance.
  ValueId decide(Builder& b, ValueId distance = kNoValue);
  /// Steps since the one that was computed last, counting this one: 1, 2, ..., an f32 scalar. Available after
  /// decide(), if the options forecast.
  [[nodiscard]] ValueId steps_since() const { return since_; }
  /// Whether this is the first step: a bool scalar, available likewise.
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

/// A tensor that is kept when a step is computed and used in steps that are not. It is either reused unchanged, or
/// extrapolated by a Taylor series of order 1 (Liu et al., "From Reusing to Forecasting", 2025).
class KeptTensor {
 public:
  KeptTensor(Graph& graph, const std::string& name, const TensorType& type, bool forecasts);

  [[nodiscard]] ValueId read(Builder& b, const StepDecision& decision) const;
  void keep(Builder& b, const StepDecision& decision, ValueId value) const;

 private:
  ValueId value_;
  ValueId slope_ = kNoValue;  // change per step
};

/// Adds the output kVelocities, of every step as it is computed. Returns a sentence with the reason if there is no
/// velocity.
[[nodiscard]] std::optional<std::string> record_velocities(Graph& graph);

/// mean |a - b| / mean |b|, an f32 scalar.
[[nodiscard]] ValueId relative_distance(Builder& b, ValueId now, ValueId before);

}  // namespace headroom
