#include "measure/statistics/trials.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMinTrials = 3;  // made even after the time limit
constexpr double kSettledTolerance = 0.05;
constexpr std::size_t kSettledWindow = 3;
constexpr std::size_t kSettledDistance = 2;  // calls between the two windows

void check_protocol(const Protocol& protocol) {
  if (protocol.trials < 1) fail_usage("{} trials were asked for; at least 1 is needed", protocol.trials);
  if (protocol.warmup_min < 0)
    fail_usage("a warm-up of {} calls was asked for; it cannot be negative", protocol.warmup_min);
  if (protocol.warmup_max < protocol.warmup_min) {
    fail_usage("a warm-up of at most {} and at least {} calls was asked for; the most cannot be below the least",
               protocol.warmup_max, protocol.warmup_min);
  }
  if (!(protocol.max_seconds > 0))
    fail_usage("a time limit of {} s was asked for; it must be over zero", protocol.max_seconds);
  if (!(protocol.min_trial_ms >= 0))
    fail_usage("trials of at least {} ms were asked for; it cannot be negative", protocol.min_trial_ms);
  if (!(protocol.precision >= 0))
    fail_usage("a precision of {} was asked for; it cannot be negative", protocol.precision);
}

/// The number of calls that together take at least `min_trial_ms`, estimated from the last warm-up calls.
std::int64_t calls_of_a_trial(double min_trial_ms, const std::vector<double>& warmup_ms) {
  if (min_trial_ms <= 0 || warmup_ms.empty()) return 1;
  constexpr double kMaxCalls = 1e6;  // used if the clock measured zero
  const double call_ms = median(std::span(warmup_ms).last(std::min(kSettledWindow, warmup_ms.size())));
  return static_cast<std::int64_t>(std::clamp(std::ceil(min_trial_ms / call_ms), 1.0, kMaxCalls));
}

/// Decides when enough trials have been made. The precision is checked each time their number has grown by a tenth,
/// not after every trial: fewer checks reduce the bias from stopping at a lucky one.
class TrialGoal {
 public:
  explicit TrialGoal(const Protocol& protocol) : protocol_(protocol), next_look_(protocol.trials) {}

  bool is_reached(const std::vector<double>& times_ms) {
    const std::int64_t made = std::ssize(times_ms);
    if (made < next_look_) return false;
    next_look_ = made + std::max<std::int64_t>(1, made / 10);
    return protocol_.precision <= 0 || is_precise(times_ms, protocol_.precision);
  }
  /// The maximum number of trials.
  [[nodiscard]] std::int64_t limit() const {
    return protocol_.precision > 0 ? std::max(protocol_.trials, protocol_.max_trials) : protocol_.trials;
  }

 private:
  const Protocol& protocol_;
  std::int64_t next_look_;
};

/// `timed` makes the given number of calls and returns the milliseconds of one call.
Trials measure(const std::function<double(std::int64_t calls)>& timed, const Protocol& protocol,
               const std::function<void(const TrialProgress&)>& on_progress, const MillisecondClock& clock) {
  check_protocol(protocol);
  const double began_ms = clock();
  const auto out_of_time = [&] { return clock() - began_ms >= 1000 * protocol.max_seconds; };
  // Makes `calls` calls, appends the time to `times_ms` and reports progress.
  const auto run_batch = [&](std::int64_t calls, std::vector<double>& times_ms, bool warming_up, int total) {
    times_ms.push_back(timed(calls));
    if (on_progress) on_progress({warming_up, static_cast<std::int64_t>(times_ms.size()), total, times_ms.back()});
  };

  std::vector<double> warmup_ms;
  warmup_ms.reserve(static_cast<std::size_t>(protocol.warmup_max));
  while (std::ssize(warmup_ms) < protocol.warmup_max) {
    if (std::ssize(warmup_ms) >= protocol.warmup_min && (is_settled(warmup_ms) || out_of_time())) break;
    run_batch(1, warmup_ms, true, protocol.warmup_max);
  }

  Trials result;
  result.warmup = std::ssize(warmup_ms);
  result.warmup_stable = is_settled(warmup_ms);
  TrialGoal target(protocol);
  result.wall_ms.reserve(static_cast<std::size_t>(target.limit()));
  ConditionsProbe probe(protocol.gpu_pci_bus_id);
  const std::int64_t calls = calls_of_a_trial(protocol.min_trial_ms, warmup_ms);
  while (!(result.complete = target.is_reached(result.wall_ms))) {
    const std::int64_t made = std::ssize(result.wall_ms);
    if (made >= target.limit() || (made >= kMinTrials && out_of_time())) break;
    probe.begin();
    run_batch(calls, result.wall_ms, false, protocol.trials);
    probe.add_trial();
  }
  result.conditions = probe.take();
  return result;
}

}  // namespace

double steady_clock_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_settled(const std::vector<double>& times_ms) {
  if (times_ms.size() < kSettledWindow + kSettledDistance) return false;
  const std::span<const double> all(times_ms);
  const double now = median(all.last(kSettledWindow));
  const double before = median(all.last(kSettledWindow + kSettledDistance).first(kSettledWindow));
  return std::abs(now - before) <= kSettledTolerance * before;
}

bool is_precise(const std::vector<double>& times_ms, double share) {
  if (times_ms.empty()) return false;
  const std::optional<Interval> interval = exact_median_interval(times_ms);
  return interval && (interval->high - interval->low) / 2 <= share * median(times_ms);
}

Trials measure_callable(const std::function<void()>& body, const Protocol& protocol,
                        const std::function<void(const TrialProgress&)>& on_progress, const MillisecondClock& clock) {
  const auto timed = [&](std::int64_t calls) {
    const double start_ms = clock();
    for (std::int64_t call = 0; call < calls; ++call) body();
    return (clock() - start_ms) / static_cast<double>(calls);
  };
  return measure(timed, protocol, on_progress, clock);
}

Trials measure_self_timed(const std::function<double()>& timed, const Protocol& protocol,
                          const std::function<void(const TrialProgress&)>& on_progress, const MillisecondClock& clock) {
  Protocol alone = protocol;
  alone.min_trial_ms = 0;
  return measure([&](std::int64_t /*calls*/) { return timed(); }, alone, on_progress, clock);
}

}  // namespace headroom
