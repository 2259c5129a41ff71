#include "measure/statistics/effect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "measure/probes/clock_tick.hpp"
#include "measure/statistics/bootstrap_interval.hpp"
#include "measure/statistics/distributions.hpp"
#include "measure/statistics/mann_whitney.hpp"
#include "measure/statistics/serial_dependence.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

constexpr std::size_t kBootstrapPairs = 20;  // below, a bootstrap's interval is too narrow: over 7% of them miss the
                                             // true value
constexpr double kHalfPi = std::numbers::pi / 2;  // variance of a median over that of a mean

std::vector<double> medians_of(std::span<const std::vector<double>> processes, const char* build) {
  if (processes.empty()) fail("there are no trials of the {} build", build);
  std::vector<double> medians;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].empty()) fail("process {} of the {} build has no trials", i, build);
    for (const double ms : processes[i])
      if (!std::isfinite(ms) || ms <= 0)
        fail("a time of the {} build is {} ms; a ratio needs finite times over zero", build, ms);
    medians.push_back(median(processes[i]));
  }
  return medians;
}

std::vector<double> logarithms(std::span<const double> values) {
  std::vector<double> logs(values.size());
  std::ranges::transform(values, logs.begin(), [](double value) { return std::log(value); });
  return logs;
}

Interval exponential(const Interval& logs) { return {std::exp(logs.low), std::exp(logs.high)}; }

std::vector<MedianResampler> resamplers_of(std::span<const std::vector<double>> processes) {
  std::vector<MedianResampler> resamplers;
  for (const std::vector<double>& trials : processes) resamplers.emplace_back(sorted_copy(trials));
  return resamplers;
}

/// Bootstrap interval of the log ratio: pairs are drawn with replacement, and within each pair the trials of both
/// processes.
Interval hierarchical_interval(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                               const Bootstrap& bootstrap) {
  std::vector<MedianResampler> base_medians = resamplers_of(base);
  std::vector<MedianResampler> new_medians = resamplers_of(changed);
  IndexStream pairs(bootstrap.seed, 0), base_stream(bootstrap.seed, 1), new_stream(bootstrap.seed, 2);
  std::vector<double> logs(base.size());
  return percentile_interval(bootstrap.resamples, [&] {
    for (double& log : logs) {
      const std::size_t pair = pairs.draw(base.size());
      log = std::log(new_medians[pair].draw(new_stream) / base_medians[pair].draw(base_stream));
    }
    std::ranges::sort(logs);
    return quantile_of_sorted(logs, 0.5);
  });
}

double sum_of_squares(std::span<const double> values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares;
}

constexpr const char* kEqualTrials = "all trials are equal, so the clock is too coarse to tell";
std::string coarse_clock(double tick_ms) { return fmt::format("the clock has steps of {}", format_ms(tick_ms)); }

/// Distances from the middle of an interval to its ends, in logarithms.
struct Reach {
  double down = 0;
  double up = 0;
};

/// Distances to the ends of the distribution-free interval of a median. For fewer than 6 values, which have no such
/// interval, to the smallest and the largest value.
Reach order_reach(std::span<const double> logs) {
  const double middle = median(logs);
  const auto [least, most] = std::ranges::minmax(logs);
  const Interval interval = exact_median_interval(logs).value_or(Interval{least, most});
  return {.down = middle - interval.low, .up = interval.high - middle};
}

/// The variance of a median of dependent values. Their squares about the mean underestimate the variance; this
/// corrects it by a factor of at most two.
double median_variance(double squares, double degrees, double shown, double inflation, std::size_t n) {
  const double variance = squares / std::max(shown, degrees / 2);
  return kHalfPi * variance * inflation / static_cast<double>(n);
}

/// The interval of the difference of two medians of logarithms, as distances from the measured difference.
class DifferenceReach {
 public:
  /// Values are in measuring order. `ticks` are the resolution of the clock on each side, in logarithms.
  DifferenceReach(std::span<const double> base, std::span<const double> changed, Reach ticks)
      : base_(block_medians(base)), changed_(block_medians(changed)), dependence_(serial_dependence(base_, changed_)) {
    base_reach_ = order_reach(base);
    new_reach_ = order_reach(changed);
    is_coarse_ = ticks.down > std::min(base_reach_.down, base_reach_.up);
    base_reach_ = {std::max(base_reach_.down, ticks.down), std::max(base_reach_.up, ticks.down)};
    new_reach_ = {std::max(new_reach_.down, ticks.up), std::max(new_reach_.up, ticks.up)};
  }

  /// Student's interval with one variance for both sides.
  void add_pooled() {
    const double base_inflation = inflation(base_), new_inflation = inflation(changed_);
    const auto n = static_cast<double>(base_.size()), m = static_cast<double>(changed_.size());
    const double squares = sum_of_squares(base_) + sum_of_squares(changed_), degrees = n + m - 2;
    const double shown = n - base_inflation + m - new_inflation;
    const double variance = median_variance(squares, degrees, shown, base_inflation, base_.size()) +
                            median_variance(squares, degrees, shown, new_inflation, changed_.size());
    student_ = students_t_quantile(degrees, 0.975) * std::sqrt(variance);
  }

  /// Student's interval with each side's own variance.
  void add_own() {
    for (const auto& [side, reach] : {std::pair{&base_, &base_reach_}, std::pair{&changed_, &new_reach_}}) {
      const double n = static_cast<double>(side->size()), inflated = inflation(*side);
      const double variance = median_variance(sum_of_squares(*side), n - 1, n - inflated, inflated, side->size());
      const double student = students_t_quantile(n - 1, 0.975) * std::sqrt(variance);
      *reach = {std::max(reach->down, student), std::max(reach->up, student)};
    }
  }

  /// The combined interval, including an independent error of size `other`.
  [[nodiscard]] Reach reach(double other = 0) const {
    const double least = std::max(student_, drift());
    return {std::hypot(std::max(least, std::hypot(new_reach_.down, base_reach_.up)), other),
            std::hypot(std::max(least, std::hypot(new_reach_.up, base_reach_.down)), other)};
  }

  /// Whether a side's interval is narrower than the clock's resolution.
  [[nodiscard]] bool is_coarse() const { return is_coarse_; }
  /// The reason why the interval is wider than the spread.
  [[nodiscard]] std::string limit(const char* values) const {
    const double spread =
        std::max({student_, std::hypot(new_reach_.down, base_reach_.up), std::hypot(new_reach_.up, base_reach_.down)});
    return drift() > spread ? fmt::format("{} drift in the order they were measured", values) : "";
  }

 private:
  [[nodiscard]] double inflation(const std::vector<double>& side) const {
    return variance_inflation(dependence_.correlation, side.size());
  }
  [[nodiscard]] double drift() const {
    if (!dependence_.is_drifting) return 0;
    double ranges = 0;
    for (const std::vector<double>* side : {&base_, &changed_}) {
      const auto [least, most] = std::ranges::minmax(*side);
      ranges += most - least;
    }
    return ranges;
  }

  std::vector<double> base_;
  std::vector<double> changed_;
  SerialDependence dependence_;
  Reach base_reach_;
  Reach new_reach_;
  double student_ = 0;
  bool is_coarse_ = false;
};

Interval interval_around(double ratio, const Reach& reach) {
  return {ratio * std::exp(-reach.down), ratio * std::exp(reach.up)};
}

/// The processes of a build. If each has a single trial, they are joined as trials of one process.
ProcessTrials joined_where_single(std::span<const std::vector<double>> processes) {
  const auto is_single = [](const std::vector<double>& trials) { return trials.size() == 1; };
  if (!std::ranges::all_of(processes, is_single)) return {processes.begin(), processes.end()};
  ProcessTrials joined(1);
  for (const std::vector<double>& trials : processes) joined.front().push_back(trials.front());
  return joined;
}

/// The p of a normal distribution whose 95% interval has this size.
double normal_p(double log_ratio, const Reach& reach) {
  return two_sided_normal_p(std::abs(log_ratio) / (log_ratio > 0 ? reach.down : reach.up) * normal_quantile(0.975));
}

}  // namespace

double log_median_variance(std::span<const double> trials) {
  const std::optional<Interval> interval = exact_median_interval(logarithms(trials));
  if (!interval) return 0;
  const double deviation = (interval->high - interval->low) / (2 * normal_quantile(0.975));
  return deviation * deviation;
}

Effect paired_effect(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                     const Bootstrap& bootstrap) {
  if (base.size() != changed.size())
    fail("{} processes of the base build are paired with {} of the new one", base.size(), changed.size());
  const std::vector<double> base_medians = medians_of(base, "base");
  const std::vector<double> new_medians = medians_of(changed, "new");
  std::vector<double> log_ratios(base.size());
  for (std::size_t i = 0; i < base.size(); ++i) log_ratios[i] = std::log(new_medians[i] / base_medians[i]);

  Effect effect{.ratio = std::exp(median(log_ratios)),
                .interval = {},
                .p = mann_whitney(base_medians, new_medians).p,
                .base_processes = std::ssize(base),
                .new_processes = std::ssize(changed),
                .paired = true};
  const double tick = clock_tick(base, changed).value_or(0);  // pairs use a clock with nanosecond resolution
  const auto is_single = [](const std::vector<double>& trials) { return trials.size() == 1; };
  const bool has_trials = !std::ranges::all_of(base, is_single) || !std::ranges::all_of(changed, is_single);
  if (has_trials && base.size() >= kBootstrapPairs) {
    effect.interval = exponential(hierarchical_interval(base, changed, bootstrap));
  } else if (const std::optional<Interval> exact = exact_median_interval(log_ratios)) {
    effect.interval = exponential(*exact);
  }
  if (effect.interval && tick > 0) {
    const double step = std::hypot(tick / median(base_medians), tick / median(new_medians));
    const Interval coarse = interval_around(effect.ratio, {step, step});
    if (coarse.low < effect.interval->low || coarse.high > effect.interval->high) effect.limit = coarse_clock(tick);
    effect.interval = {std::min(coarse.low, effect.interval->low), std::max(coarse.high, effect.interval->high)};
  }
  return effect;
}

Estimate paired_factor(std::span<const double> base, std::span<const double> changed) {
  const auto one_each = [](std::span<const double> times) {
    ProcessTrials processes;
    for (const double ms : times) processes.push_back({ms});
    return processes;
  };
  const Effect effect = paired_effect(one_each(changed), one_each(base));
  return {effect.ratio, effect.interval};
}

Effect unpaired_effect(std::span<const std::vector<double>> base, std::span<const std::vector<double>> changed,
                       std::optional<double> process_noise) {
  const std::vector<double> base_medians = medians_of(base, "base");
  const std::vector<double> new_medians = medians_of(changed, "new");
  const double base_ms = median(base_medians), new_ms = median(new_medians);
  Effect effect{.ratio = new_ms / base_ms,
                .interval = {},
                .p = mann_whitney(base_medians, new_medians).p,
                .base_processes = std::ssize(base),
                .new_processes = std::ssize(changed),
                .paired = false};
  const bool has_several = base.size() + changed.size() > 2;
  const std::int64_t trials = std::min(std::ssize(base.front()), std::ssize(changed.front()));
  if (!has_several && !process_noise) {
    effect.limit = trials < kFewestForInterval
                       ? fmt::format("{}; and {}", kOneProcessEach, too_few_for_interval(trials))
                       : kOneProcessEach;
    return effect;
  }
  if (!has_several && trials < kFewestForInterval) {
    effect.limit = too_few_for_interval(trials);
    return effect;
  }
  const std::optional<double> tick = clock_tick(joined_where_single(base), joined_where_single(changed));
  if (!tick) {
    effect.limit = kEqualTrials;
    return effect;
  }
  const Reach ticks = {.down = *tick / base_ms, .up = *tick / new_ms};
  Reach reach;
  if (has_several) {
    DifferenceReach of_processes(logarithms(base_medians), logarithms(new_medians), ticks);
    of_processes.add_pooled();
    reach = of_processes.reach();
    effect.limit = of_processes.is_coarse() ? coarse_clock(*tick) : of_processes.limit("processes");
  } else {
    DifferenceReach of_trials(logarithms(base.front()), logarithms(changed.front()), ticks);
    of_trials.add_own();
    constexpr int kNoiseDegrees = 5;  // the noise is treated as an estimate from 6 processes
    reach = of_trials.reach(students_t_quantile(kNoiseDegrees, 0.975) * std::sqrt(2) * *process_noise);
    effect.limit = of_trials.is_coarse() ? coarse_clock(*tick) : of_trials.limit("trials");
    effect.p = normal_p(std::log(effect.ratio), reach);
  }
  effect.interval = interval_around(effect.ratio, reach);
  return effect;
}

}  // namespace headroom
