#include "measure/results/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/protocol/ladder_rounds.hpp"
#include "measure/protocol/submissions.hpp"

namespace headroom {
namespace {

bool is_single_visit(const TrialSeries& series) { return !series.round.empty() && split_visits(series).size() == 1; }

Timing timing_of_series(const TrialSeries& series) {
  return {.unit = unit_of_series(series.what),
          .series = series.what,
          .trials_ms = series.time_ms,
          .median_ms = series.statistics.median,
          .interval_ms = interval_of(series),
          .no_interval = why_no_interval(series)};
}

/// Whether the result is of requests, whose denoise steps were timed.
bool has_timed_steps(const Result& result) {
  const nlohmann::json& request = result.subject.request;
  const auto is_number = [&](const char* key) { return request.contains(key) && request[key].is_number(); };
  return find_series(result, "step") != nullptr && is_number("steps") && is_number("images") &&
         request["images"].get<double>() > 0;
}

/// The 95% interval of a series' median; from the smallest to the largest if there are too few trials for one.
Interval median_range(const TrialSeries& series) {
  return series.statistics.median_interval.value_or(Interval{series.statistics.min, series.statistics.max});
}

/// Errors of the prologue and of the steps are independent: their distances to the ends add in quadrature.
Timing timing_of_images(const Result& result) {
  Timing timing = timing_of_series(*find_series(result, "step"));
  const double steps = steps_run(result), images = result.subject.request["images"].get<double>();
  const TrialSeries* const prologue = find_series(result, "prologue");
  const double prologue_ms = prologue == nullptr ? 0 : prologue->statistics.median;
  const auto of_image = [&](double step_ms) { return (prologue_ms + steps * step_ms) / images; };
  timing.unit = "image";
  std::ranges::transform(timing.trials_ms, timing.trials_ms.begin(), of_image);
  if (const std::optional<Interval>& step = timing.interval_ms) {
    const Interval before = prologue == nullptr ? Interval{} : median_range(*prologue);
    const double down = std::hypot(steps * (timing.median_ms - step->low), prologue_ms - before.low),
                 up = std::hypot(steps * (step->high - timing.median_ms), before.high - prologue_ms);
    const double median_ms = of_image(timing.median_ms);
    timing.interval_ms = Interval{median_ms - down / images, median_ms + up / images};
  }
  timing.median_ms = of_image(timing.median_ms);
  return timing;
}

/// Whether the series is not of a ladder, whose rounds are its replicates, and its trials are all of one process.
bool is_lone_process(const TrialSeries& series) {
  return series.round.empty() &&
         std::ranges::all_of(series.process, [&](std::int64_t process) { return process == series.process.front(); });
}

bool is_over_zero(const Timing& timing) {
  return std::ranges::all_of(timing.trials_ms, [](double time) { return time > 0; });
}

}  // namespace

std::optional<Timing> timing_of(const Result& result) {
  if (result.latency)
    return Timing{.unit = "frame",
                  .series = "frame",
                  .trials_ms = result.latency->latency_ms,
                  .median_ms = result.latency->statistics.p50_ms,
                  .interval_ms = {},
                  .no_interval = "frames are no independent trials"};
  if (result.trials.empty()) return {};
  if (has_timed_steps(result)) return timing_of_images(result);
  for (const char* preferred : {"image", "forward", "launch"})
    if (const TrialSeries* const series = find_series(result, preferred)) return timing_of_series(*series);
  return timing_of_series(result.trials.front());
}

std::optional<Interval> interval_of(const TrialSeries& series) {
  return is_single_visit(series) ? std::nullopt : series.statistics.median_interval;
}

std::string why_no_interval(const TrialSeries& series) {
  if (interval_of(series)) return {};
  const std::int64_t trials = std::ssize(series.time_ms);
  if (trials < kFewestForInterval) return too_few_for_interval(trials);
  return is_single_visit(series) ? one_says_nothing() : "the result has none";
}

std::string remark_on_few_trials(std::span<const Result> results, std::string_view series, std::string_view option) {
  std::int64_t fewest = kFewestForInterval, rows = 0;
  std::vector<std::string_view> few;  // names of rows
  for (const Result& result : results) {
    const TrialSeries* const found = find_series(result, series);
    if (found == nullptr) continue;
    ++rows;
    if (found->statistics.n >= kFewestForInterval) continue;
    few.push_back(result.name);
    fewest = std::min(fewest, found->statistics.n);
  }
  if (few.empty()) return {};
  std::string which;  // where others have enough
  if (std::ssize(few) < rows)
    which = few.size() == 1 ? fmt::format("{}: ", few[0]) : fmt::format("{} and {} more: ", few[0], few.size() - 1);
  return fmt::format("\n{}{}{}\n", which, too_few_for_interval(fewest),
                     option.empty() ? "" : fmt::format(" ({})", option));
}

std::string remark_on_unsettled(std::span<const Result> results) {
  std::string first;
  std::int64_t rows = 0;
  for (const Result& result : results) {
    const std::optional<std::string> found = why_unsettled(result);
    if (found && ++rows == 1) first = fmt::format("{}: {}", result.name, *found);
  }
  if (rows == 0) return {};
  return fmt::format("{} of {} times are unsettled, and nothing should be concluded from them ({}{})\n", rows,
                     results.size(), first, rows == 1 ? "" : fmt::format("; and {} more", rows - 1));
}

std::optional<std::string> find_disturbance(const TrialSeries& series, double observed, std::string_view trial) {
  if (series.conditions.empty()) return {};
  const std::vector<Trials> processes = split_visits(series);
  std::string disturbance;
  std::size_t disturbed = 0;
  for (const Trials& trials : processes) {
    const std::string found = find_disturbance(trials, observed, trial);
    if (found.empty()) continue;
    if (++disturbed == 1) disturbance = found;
  }
  return 2 * disturbed > processes.size() ? std::optional(disturbance) : std::nullopt;
}

std::optional<std::string> why_unsettled(const Result& result) {
  if (result.unsettled) return result.unsettled;
  if (const TrialSeries* const launches = find_series(result, "launch")) {
    const double observed = launches_in_trial(launches->statistics.median, result.configuration.device == "cpu");
    return find_disturbance(*launches, observed, trial_of_series(launches->what));
  }
  if (const TrialSeries* const loads = find_series(result, "load"); loads != nullptr && loads == &result.trials.front())
    return find_disturbance(*loads, 1, trial_of_series(loads->what));
  const TrialSeries* const series = find_timed_series(result);
  if (series == nullptr || !series->round.empty()) return {};
  return find_disturbance(*series, steps_observed(result), trial_of_series(series->what));
}

std::string unit_of_series(std::string_view series) {
  return series == "forward" ? "forward pass" : std::string(series);
}

std::string why_no_factor_interval(const Result& result) {
  const std::optional<Timing> timing = timing_of(result);
  if (!timing) return "it has no times";
  if (!timing->interval_ms) return timing->no_interval;
  return is_lone_process(series_of(result, timing->series)) ? "one process says nothing of how processes differ" : "";
}

std::optional<Estimate> speedup(const Result& base, const Result& other, bool is_one_file) {
  const std::optional<Timing> before = timing_of(base), after = timing_of(other);
  if (!before || !after || before->unit != after->unit || !is_over_zero(*before) || !is_over_zero(*after)) return {};
  if (is_one_file)
    if (const std::optional<Estimate> factor = round_factor(base, other)) return factor;
  Estimate factor = ratio_of({before->median_ms, before->interval_ms}, {after->median_ms, after->interval_ms});
  if (!why_no_factor_interval(base).empty() || !why_no_factor_interval(other).empty()) factor.interval.reset();
  return factor;
}

}  // namespace headroom
