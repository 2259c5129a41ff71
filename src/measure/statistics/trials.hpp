#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/probes/conditions.hpp"

namespace headroom {

/// How often something is timed.
struct Protocol {
  int warmup_min = 5;        ///< untimed calls that are always made
  int warmup_max = 50;       ///< after so many the trials begin, stable or not
  int trials = 20;           ///< calls that are timed
  double max_seconds = 300;  ///< for all of it; see measure_callable() for what is done regardless
  double min_trial_ms = 0;   ///< shorter calls are made several times a trial, as often as the warm-up says
  /// After `trials`, more are made until is_precise() holds for this share, or there are max_trials. 0 makes no more.
  double precision = 0;
  int max_trials = 10'000;
  std::string gpu_pci_bus_id = {};  ///< of a GPU whose clocks, power and throttling are noted for every trial as well
};

/// Raw times of one thing done again and again in one process. The caller may fill it from times taken elsewhere: the
/// 28 denoise steps of one image are 28 trials.
struct Trials {
  std::vector<double> wall_ms;  ///< of one call, for every trial in the order they ran
  std::int64_t warmup = 0;      ///< calls before them that do not count
  bool warmup_stable = true;    ///< false where warm-up ended before its times had settled
  bool complete = true;         ///< false where max_seconds or max_trials ended it before trials and precision
  std::int64_t process = 0;     ///< which of several interleaved processes this was
  std::optional<std::int64_t> round = {};  ///< of a ladder, 0 first; see TrialSeries::round
  Conditions conditions = {};              ///< what the machine did meanwhile; without columns where nobody watched
};

/// How far a measurement has come, told after each call.
struct TrialProgress {
  bool warming_up = false;
  std::int64_t done = 0;   ///< calls of this phase
  std::int64_t total = 0;  ///< in this phase; of a warm-up the most there may be, of trials for a precision the fewest
  double last_ms = 0;      ///< of the call just made
};

/// Whether warm-up times (oldest first) have settled: the median of the last three lies within 5% of the median of the
/// three that end two calls earlier, so that a trend shows. Fewer than five are never settled.
[[nodiscard]] bool is_settled(const std::vector<double>& times_ms);

/// Whether the median is known to that share of it: half the width of exact_median_interval() is at most so much. Never
/// with fewer than 6 times, which have no such interval.
[[nodiscard]] bool is_precise(const std::vector<double>& times_ms, double share);

/// Milliseconds since any fixed moment, never going back.
using MillisecondClock = std::function<double()>;
[[nodiscard]] double steady_clock_ms();

/// Times `body` by `clock`, one trial per call, or per batch of calls where one takes less than min_trial_ms (the time
/// of a call is then the batch's divided by its size). `body` must return when its work is done (synchronize a device
/// inside).
///
/// First it warms up: at least warmup_min calls, then on until is_settled(), at most warmup_max. Then come `trials`
/// timed trials. When max_seconds have passed, warm-up ends after warmup_min and the trials after three; both are
/// recorded in the result. `on_progress` may be empty; it runs between calls, outside what is timed. What `body` throws
/// passes through. Another clock is for tests. Throws a usage Error for a protocol with no trials, a negative warm-up
/// a time limit that is not positive or a negative precision.
[[nodiscard]] Trials measure_callable(const std::function<void()>& body, const Protocol& protocol = {},
                                      const std::function<void(const TrialProgress&)>& on_progress = {},
                                      const MillisecondClock& clock = steady_clock_ms);

/// The same for what times itself: each call of `timed` is one trial (nothing is batched) and returns its milliseconds,
/// to which what it did besides does not add: emptying caches first, say. max_seconds counts all of it.
[[nodiscard]] Trials measure_self_timed(const std::function<double()>& timed, const Protocol& protocol = {},
                                        const std::function<void(const TrialProgress&)>& on_progress = {},
                                        const MillisecondClock& clock = steady_clock_ms);

}  // namespace headroom
