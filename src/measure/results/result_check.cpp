#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "measure/results/json_members.hpp"
#include "measure/results/result_json.hpp"

namespace headroom {
namespace {

// Years that a correctly set clock can show. Files from a wrong clock would permanently sort as the latest or the
// earliest.
constexpr int kFirstYear = 2000, kLastYear = 2199;

void check_series(const TrialSeries& series, const std::string& place) {
  if (series.time_ms.empty()) fail("series '{}' in {} has no trials", series.what, place);
  if (series.process.size() != series.time_ms.size()) {
    fail("series '{}' in {} has {} times but {} process numbers", series.what, place, series.time_ms.size(),
         series.process.size());
  }
  Conditions whole = series.conditions;
  whole.keep_whole(series.time_ms.size());
  if (whole != series.conditions)
    fail("series '{}' in {} has conditions of another number of trials", series.what, place);
  if (!series.round.empty() && series.round.size() != series.time_ms.size())
    fail("series '{}' in {} has {} times but {} round numbers", series.what, place, series.time_ms.size(),
         series.round.size());
  if (series.statistics.n != std::ssize(series.time_ms)) {
    fail("series '{}' in {} has {} times but statistics of {}", series.what, place, series.time_ms.size(),
         series.statistics.n);
  }
}

void check_unique(std::span<const std::string> names, std::string_view list, const std::string& place) {
  std::set<std::string_view> seen;
  for (const std::string& name : names)
    if (!seen.insert(name).second) fail("\"{}\" in the configuration of {} has '{}' twice", list, place, name);
}

/// Fewer steps than the request's are run if the switch `steps` says so.
void check_steps(const std::string& name, const std::string& place) {
  constexpr std::string_view kSwitch = "steps=";
  if (!name.starts_with(kSwitch)) return;
  int steps = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kSwitch.size(), end, steps);
  if (parsed.ec != std::errc{} || parsed.ptr != end || steps < 1)
    fail("{} has the switch '{}', but steps=N with a whole N over zero was expected", place, name);
}

void check_configuration(const Configuration& configuration, const std::string& place) {
  check_unique(configuration.asked, "asked", place);
  check_unique(configuration.applied, "applied", place);
  std::set<std::string> settled(configuration.applied.begin(), configuration.applied.end());
  for (const DeclinedSwitch& declined : configuration.declined)
    if (!settled.insert(declined.name).second)
      fail("{} declined '{}' twice, or applied it as well", place, declined.name);
  settled.insert("auto");  // its choices are among the applied switches
  for (const std::string& name : configuration.asked) {
    if (!settled.contains(name))
      fail("{} asked for '{}' but says neither that it was applied nor that it was declined", place, name);
  }
  for (const std::string& name : configuration.applied) check_steps(name, place);
}

void check_profile(const Result& result, const ResultFile& file, const std::string& place) {
  if (!result.profile) return;
  if (!result.plan) fail("{} has a profile but names no plan", place);
  const std::size_t nodes = file.plans.at(*result.plan).nodes.size();
  const ProfileRecord& profile = *result.profile;
  const std::size_t alone = profile.alone_ms.empty() ? nodes : profile.alone_ms.size();
  for (const std::size_t entries :
       {profile.time_ms.size(), alone, profile.floor_ms.size(), profile.floor_of.size(), profile.runs.size()})
    if (entries != nodes)
      fail("the profile of {} has a column of {} entries for the {} nodes of its plan", place, entries, nodes);
}

void check_stages(const Result& result, const std::string& place) {
  std::set<std::string_view> seen;
  for (const StageRecord& stage : result.stages) {
    if (!seen.insert(stage.name).second) fail("{} has the stage '{}' twice", place, stage.name);
    if (find_series(result, stage.name) == nullptr)
      fail("{} has the stage '{}', but no series of its times", place, stage.name);
  }
}

void check_quality(const QualityRecord& quality, const std::string& place) {
  if (!quality.value && !quality.note)
    fail("{} of {} has neither a value nor a note that says why", quality.metric, place);
  const NumberRange range = quality.metric == "accuracy"      ? kShare
                            : quality.metric == "relative_l2" ? kNotNegative
                                                              : kAnyNumber;
  if (quality.value && (*quality.value < range.low || *quality.value > range.high))
    fail("\"value\" of the {} of {} is {}, but {} was expected", quality.metric, place, *quality.value, range.words);
  if (!quality.interval) return;
  const auto [low, high] = *quality.interval;
  if (!quality.value || !(low <= *quality.value && *quality.value <= high))
    fail("{} of {} has an interval of {} to {}, which does not hold its value", quality.metric, place, low, high);
}

/// The identity of a result. A file with two results of one identity is refused, since it would be arbitrary which of
/// them is shown.
auto identity_of(const Result& result) {
  const Configuration& c = result.configuration;
  return std::tuple(work_hash(result.subject), result.source.name, result.name, c.device, c.asked, c.threads,
                    c.baseline_dtype, result.tags);
}

bool is_close(double stored, double own, double scale) { return std::abs(stored - own) <= 1e-6 * scale; }

void check_figure(std::string_view name, double stored, double own, double scale, const std::string& place) {
  if (!is_close(stored, own, scale)) fail("{} of {} is {}, but its trials give {}", name, place, stored, own);
}

void check_count(std::string_view name, std::int64_t stored, std::int64_t own, const std::string& place) {
  if (stored != own) fail("{} of {} is {}, but its trials give {}", name, place, stored, own);
}

/// Other programs and older files have intervals by another method, so the exact one is not required; what is shown is
/// computed from the trials.
void check_interval(const Summary& stored, const Summary& own, const std::string& place) {
  if (!stored.median_interval) return;
  const Interval& interval = *stored.median_interval;
  if (own.n < 2) fail("{} has an interval, which a single trial does not give", place);
  const double slack = 1e-6 * own.max;
  if (interval.low < own.min - slack || interval.low > own.median + slack || interval.high < own.median - slack ||
      interval.high > own.max + slack)
    fail(
        "the interval of {} is {} to {} ms, but one around the median {} and within the trials ({} to {}) was expected",
        place, interval.low, interval.high, own.median, own.min, own.max);
}

void check_statistics(const Summary& stored, const Summary& own, bool is_ours, const std::string& place) {
  constexpr std::array kFigures = {std::pair("median_ms", &Summary::median), std::pair("q1_ms", &Summary::q1),
                                   std::pair("q3_ms", &Summary::q3),         std::pair("mean_ms", &Summary::mean),
                                   std::pair("min_ms", &Summary::min),       std::pair("max_ms", &Summary::max),
                                   std::pair("p95_ms", &Summary::p95),       std::pair("p99_ms", &Summary::p99)};
  for (const auto& [name, figure] : kFigures) check_figure(name, stored.*figure, own.*figure, own.*figure, place);
  if (stored.stddev) {
    if (!own.stddev) fail("{} has a stddev_ms, which a single trial does not give", place);
    check_figure("stddev_ms", *stored.stddev, *own.stddev, own.max, place);
  }
  check_interval(stored, own, place);
  if (!is_ours) return;
  check_count("outliers_mild", stored.outliers_mild, own.outliers_mild, place);
  check_count("outliers_severe", stored.outliers_severe, own.outliers_severe, place);
  check_figure("trimmed_mean_ms", stored.trimmed_mean, own.trimmed_mean, own.trimmed_mean, place);
}

void check_latency_statistics(const LatencySummary& stored, const LatencySummary& own, const std::string& place) {
  constexpr std::array kFigures = {
      std::pair("mean_ms", &LatencySummary::mean_ms),    std::pair("p50_ms", &LatencySummary::p50_ms),
      std::pair("p90_ms", &LatencySummary::p90_ms),      std::pair("p99_ms", &LatencySummary::p99_ms),
      std::pair("p99_9_ms", &LatencySummary::p99_9_ms),  std::pair("max_ms", &LatencySummary::max_ms),
      std::pair("jitter_ms", &LatencySummary::jitter_ms)};
  for (const auto& [name, figure] : kFigures) check_figure(name, stored.*figure, own.*figure, own.max_ms, place);
  if (!stored.drift) return;
  if (!own.drift) fail("{} has a drift, which so few frames do not give", place);
  check_figure("drift", *stored.drift, *own.drift, 1 + std::abs(*own.drift), place);
}

}  // namespace

void check_results(const ResultFile& file) {
  std::set<std::string> ids;
  std::map<decltype(identity_of(std::declval<Result>())), std::string> identities;
  for (const Result& result : file.results) {
    const std::string place = fmt::format("result '{}'", result.id);
    if (!ids.insert(result.id).second) fail("two results have the id '{}'; ids must be unique in a file", result.id);
    if (!result.subject.request.is_object())
      fail("the request of {} is {}, not an object", place, result.subject.request.type_name());
    const auto [same, is_new] = identities.try_emplace(identity_of(result), result.id);
    if (!is_new)
      fail("{} and result '{}' are of the same work, source, name and configuration; only one was expected", place,
           same->second);
    if (result.plan && !file.plans.contains(*result.plan))
      fail("{} names the plan '{}', which is not in the file", place, *result.plan);
    if (result.same_as && (*result.same_as == result.id ||
                           std::ranges::find(file.results, *result.same_as, &Result::id) == file.results.end()))
      fail("{} says that it is the same as '{}', which is no other result of the file", place, *result.same_as);
    if (result.latency.has_value() != (result.subject.kind == SubjectKind::kStream))
      fail("{}: a {} result {} frame latencies", place, name_of(result.subject.kind),
           result.latency ? "must have no" : "must have");
    if (result.latency) check_latency(*result.latency, place);
    check_profile(result, file, place);
    std::set<std::string> series_names;
    for (const TrialSeries& series : result.trials) {
      check_series(series, place);
      if (!series_names.insert(series.what).second) fail("{} has two series of '{}'", place, series.what);
    }
    check_stages(result, place);
    check_configuration(result.configuration, place);
    for (const QualityRecord& quality : result.quality) check_quality(quality, place);
  }
}

bool is_date_of_results(const std::string& created) {
  constexpr std::string_view kPattern = "####-##-##T##:##:##Z";
  bool is_moment = created.size() == kPattern.size();
  for (std::size_t i = 0; is_moment && i < kPattern.size(); ++i)
    is_moment = kPattern[i] == '#' ? created[i] >= '0' && created[i] <= '9' : created[i] == kPattern[i];
  if (is_moment) {
    const auto part = [&](std::size_t at, std::size_t digits) {
      int value = 0;
      for (std::size_t i = at; i < at + digits; ++i) value = 10 * value + (created[i] - '0');
      return value;
    };
    const std::chrono::year_month_day day{std::chrono::year(part(0, 4)),
                                          std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                          std::chrono::day(static_cast<unsigned>(part(8, 2)))};
    is_moment = day.ok() && part(0, 4) >= kFirstYear && part(0, 4) <= kLastYear && part(11, 2) < 24 &&
                part(14, 2) < 60 && part(17, 2) <= 60;
  }
  return is_moment;
}

void check_created(const std::string& created) {
  if (!is_date_of_results(created))
    fail("\"created\" is '{}', but a time in UTC of the years {} to {} was expected, such as 2026-01-31T23:59:59Z",
         created, kFirstYear, kLastYear);
}

void recompute_statistics(Result& result) {
  for (TrialSeries& series : result.trials) {
    const Summary own = summarize(series.time_ms);
    check_statistics(series.statistics, own, result.source.name == "headroom",
                     fmt::format("series '{}' in result '{}'", series.what, result.id));
    series.statistics = own;
  }
  if (!result.latency) return;
  const LatencySummary own = summarize_latency(result.latency->latency_ms);
  check_latency_statistics(result.latency->statistics, own, fmt::format("the latency of result '{}'", result.id));
  result.latency->statistics = own;
}

}  // namespace headroom
