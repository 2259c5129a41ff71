#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/switches.hpp"

namespace headroom {

/// The parsed argument of a step cache: "0.08", or "0.08:warmup=2:last=1:run=5:taylor=1:schedule=10".
struct StepCacheOptions {
  double threshold = 0;     ///< the largest distance at which a step is reused
  std::int64_t warmup = 1;  ///< steps at the beginning that are always computed, at least 1
  std::int64_t last = 0;    ///< steps at the end that are always computed
  std::int64_t run = 0;     ///< the most consecutive steps that may be reused; 0 for any number
  bool forecasts = false;   ///< kept tensors are extrapolated from the change between the last two computed steps
  std::string schedule =
      {};  ///< one digit per step, repeated cyclically: 1 is computed, 0 reused, whatever the distance
  std::vector<double> fit = {};  ///< for `teacache`: the coefficients of its polynomial, the highest power first
};
/// Throws a usage Error that names the switch if the argument is invalid. The key `fit` is invalid if it is empty in
/// `defaults`.
[[nodiscard]] StepCacheOptions parse_step_cache(std::string_view switch_name, std::string_view argument,
                                                StepCacheOptions defaults = {});

/// The parsed argument of a cache of velocities: "10", or "10:schedule=1101".
struct VelocityCacheOptions {
  std::int64_t computed = 0;  ///< steps that run the model
  std::string schedule = {};  ///< as above; if empty, spread_steps() chooses the steps
};
[[nodiscard]] VelocityCacheOptions parse_velocity_cache(std::string_view switch_name, std::string_view argument);

/// For each of `steps`, whether it is computed: `computed` of them, evenly spread, including the first and the last;
/// all of them if `computed` is not smaller than `steps`.
[[nodiscard]] std::vector<bool> spread_steps(std::int64_t computed, std::int64_t steps);
/// For each of `steps`, whether the schedule computes it.
[[nodiscard]] std::vector<bool> steps_of_schedule(std::string_view schedule, std::int64_t steps);

/// Whether one of the switches is a step cache.
[[nodiscard]] bool has_step_cache(const SwitchSet& switches);
/// The step cache among the switches that decides by data computed by the network, as "fbcache=0.08"; empty if there
/// is none. With random weights such decisions are meaningless, and a schedule has to make them.
[[nodiscard]] std::string cache_that_decides(const SwitchSet& switches);
/// Whether a schedule makes decisions that otherwise depend on data.
[[nodiscard]] bool has_forced_decisions(const SwitchSet& switches);
/// A switch list in the user's syntax, with this schedule set in every such cache. Throws a usage Error if the list
/// has none.
[[nodiscard]] std::string with_schedule(std::string_view list, std::string_view schedule);
/// The list without any schedule.
[[nodiscard]] std::string without_schedule(std::string_view list);

}  // namespace headroom
