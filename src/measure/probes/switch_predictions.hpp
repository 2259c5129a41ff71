#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/switches.hpp"
#include "measure/probes/prediction.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/tables/table.hpp"
#include "run/compile.hpp"

namespace headroom {

/// What one switch is predicted to gain: of a switch that is on by leaving it out, of another by adding it.
struct SwitchPrediction {
  std::string name;
  bool is_on = false;
  bool is_exact = false;
  SwitchSet set;                      ///< the current one with this switch changed
  std::string declined;               ///< why it would not apply; nothing else is known then
  PredictedStep by_rates, by_each;    ///< the step under `set`
  std::int64_t more_bytes = 0;        ///< of activations and weights, with the switch / without it
  std::optional<double> measured_ms;  ///< a step under `set`, if it was run
  std::optional<Estimate> measured;   ///< the current step's time / that
  std::string not_run;                ///< why it was to be run and could not be

  /// The time without the switch / the time with it, from a factor of PredictedStep's kind.
  [[nodiscard]] double gain(double factor) const { return is_on ? 1 / factor : factor; }
};

/// Compiles the work under other switches.
using CompileUnder = std::function<Compiled(const SwitchSet& switches)>;

/// Predictions for every switch that needs no argument and is made for the target, the largest gains by `by_each`
/// first and those that do not apply last. Switches of step caches and live streams, under which steps are not alike,
/// are left out. `observer` may be empty.
[[nodiscard]] std::vector<SwitchPrediction> predict_switches(const Compiled& current, const SwitchSet& switches,
                                                             const MeasuredStep& step, const CompileUnder& compile,
                                                             LaunchClock& clock, const ProfileObserver& observer = {});

/// The predictions as a table.
[[nodiscard]] Table to_table(const std::vector<SwitchPrediction>& predictions);

}  // namespace headroom
