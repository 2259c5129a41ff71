#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/switches.hpp"

namespace headroom {

/// What the argument of a step cache says: "0.08", or "0.08:warmup=2:last=1:run=5:taylor=1:schedule=10".
struct StepCacheOptions {
  double threshold = 0;     ///< the largest distance at which a step is reused
  std::int64_t warmup = 1;  ///< steps at the beginning that are computed, the first one always
  std::int64_t last = 0;    ///< steps at the end that are computed
  std::int64_t run = 0;     ///< steps in a row that may be reused; 0 for any number
  bool forecasts = false;   ///< what is kept goes on changing as it did between the last two steps computed
  std::string schedule =
      {};  ///< a digit for each step, again and again: 1 is computed, 0 reused, whatever the distance
  std::vector<double> fit = {};  ///< of `teacache`: the coefficients of its polynomial, the highest power first
};
/// Throws a usage Error that names the switch, for what is no such argument. A key that stands for nothing in `defaults`
/// is none: `fit`, where that is empty.
[[nodiscard]] StepCacheOptions parse_step_cache(std::string_view switch_name, std::string_view argument,
                                                StepCacheOptions defaults = {});

/// What the argument of a cache of velocities says: "10", or "10:schedule=1101".
struct VelocityCacheOptions {
  std::int64_t computed = 0;  ///< steps that run the model
  std::string schedule = {};  ///< which, as above; empty for those of spread_steps()
};
[[nodiscard]] VelocityCacheOptions parse_velocity_cache(std::string_view switch_name, std::string_view argument);

/// For each of `steps` whether it is among `computed` that are spread over them evenly, the first and the last among
/// them. All of them where there are no more.
[[nodiscard]] std::vector<bool> spread_steps(std::int64_t computed, std::int64_t steps);
/// For each of `steps` whether a schedule has it computed.
[[nodiscard]] std::vector<bool> steps_of_schedule(std::string_view schedule, std::int64_t steps);

/// Whether one of the switches is a step cache.
[[nodiscard]] bool has_step_cache(const SwitchSet& switches);
/// The step cache among the switches whose decisions follow from what the network computes: "fbcache=0.08"; empty where
/// there is none. With random weights these mean nothing, and a schedule has to make them.
[[nodiscard]] std::string cache_that_decides(const SwitchSet& switches);
/// Whether a schedule makes decisions that are otherwise the data's.
[[nodiscard]] bool has_forced_decisions(const SwitchSet& switches);
/// A list of switches, as a user writes it, in which every such cache has that schedule. Throws a usage Error where it has
/// none.
[[nodiscard]] std::string with_schedule(std::string_view list, std::string_view schedule);
/// The list with no schedule in any of them.
[[nodiscard]] std::string without_schedule(std::string_view list);

}  // namespace headroom
