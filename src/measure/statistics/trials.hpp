#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/probes/conditions.hpp"

namespace headroom {

/// How many times a measurement is repeated, and for how long.
struct Protocol {
  int warmup_min = 5;        ///< least number of untimed warm-up calls
  int warmup_max = 50;       ///< the trials begin after this many warm-up calls, stable or not
  int trials = 20;           ///< timed calls
  double max_seconds = 300;  ///< for warm-up and trials together; measure_callable() says what is done regardless
  double min_trial_ms = 0;   ///< shorter calls are batched within a trial; the warm-up determines the batch size
  /// More trials follow after `trials`, until is_precise() holds for this share, or max_trials is reached. 0 disables
  /// it.
  double precision = 0;
  int max_trials = 10'000;
  std::string gpu_pci_bus_id = {};  ///< of a GPU whose clocks, power and throttling are recorded for every trial
};

/// Raw times of one operation, repeated in one process. The caller may also fill it with times measured elsewhere:
/// the 28 denoise steps of one image are 28 trials.
struct Trials {
  std::vector<double> wall_ms;             ///< time of one call, for every trial in the order they ran
  std::int64_t warmup = 0;                 ///< warm-up calls before them, not counted
  bool warmup_stable = true;               ///< false if warm-up ended before its times had settled
  bool complete = true;                    ///< false if max_seconds or max_trials ended it before trials and precision
  std::int64_t process = 0;                ///< number of the process, if several are interleaved
  std::optional<std::int64_t> round = {};  ///< of a ladder, from 0; see TrialSeries::round
  Conditions conditions = {};              ///< of the machine during the trials; without columns if not observed
};

/// Progress of a measurement, reported after each call.
struct TrialProgress {
  bool warming_up = false;
  std::int64_t done = 0;   ///< calls of this phase
  std::int64_t total = 0;  ///< in this phase; for a warm-up the maximum, for trials with a precision the minimum
  double last_ms = 0;      ///< of the call just made
};

/// Whether warm-up times (oldest first) have settled. The median of the last three must lie within 5% of the median
/// of the three that end two calls earlier, so that a trend shows. Fewer than five are never settled.
[[nodiscard]] bool is_settled(const std::vector<double>& times_ms);

/// Whether the median is known to that relative precision: half the width of exact_median_interval() is at most this
/// share of it. Always false for fewer than 6 times, which have no such interval.
[[nodiscard]] bool is_precise(const std::vector<double>& times_ms, double share);

/// Milliseconds since a fixed moment; never decreases.
using MillisecondClock = std::function<double()>;
[[nodiscard]] double steady_clock_ms();

/// Times `body` by `clock`, one trial per call. Calls that take less than min_trial_ms are batched; the time of a
/// call is then the batch's divided by its size. `body` must return when its work is done, so it synchronizes the
/// device.
///
/// The warm-up makes at least warmup_min calls, then continues until is_settled(), at most warmup_max. Then come
/// `trials` timed trials. When max_seconds have passed, warm-up ends after warmup_min and the trials after three;
/// both are recorded in the result. `on_progress` may be empty; it runs between calls, outside the timed intervals.
/// Exceptions of `body` pass through. Tests pass another clock. Throws a usage Error for a protocol with no trials, a
/// negative warm-up, a time limit that is not positive or a negative precision.
[[nodiscard]] Trials measure_callable(const std::function<void()>& body, const Protocol& protocol = {},
                                      const std::function<void(const TrialProgress&)>& on_progress = {},
                                      const MillisecondClock& clock = steady_clock_ms);

/// The same for a callable that times itself: each call of `timed` is one trial, without batching, and returns its
/// milliseconds. Other work of the call, such as emptying caches first, is not part of that time. max_seconds counts
/// all of it.
[[nodiscard]] Trials measure_self_timed(const std::function<double()>& timed, const Protocol& protocol = {},
                                        const std::function<void(const TrialProgress&)>& on_progress = {},
                                        const MillisecondClock& clock = steady_clock_ms);

}  // namespace headroom
