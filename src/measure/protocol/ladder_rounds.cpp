#include "measure/protocol/ladder_rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/statistics/distributions.hpp"
#include "measure/statistics/effect.hpp"
#include "measure/tables/table.hpp"
#include "pipelines/schedules/sampler.hpp"

namespace headroom {
namespace {

constexpr double kSettledShare = 0.10;  // the most that an interval may extend to either side, relative to the factor
constexpr double kMostChange = 0.15;    // within a visit, or between the baseline visits before and after a round
constexpr std::size_t kFewestToHalve = 6;
constexpr std::string_view kLeftOut = "_left_out";

double geometric_mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

VisitId id_of(const Trials& trials) { return {.process = trials.process, .round = trials.round.value_or(0)}; }

/// Whether a time changed noticeably; times of zero cannot be compared.
bool has_changed(double from_ms, double to_ms) { return std::abs(std::log(to_ms / from_ms)) > std::log1p(kMostChange); }

std::string find_drift(std::span<const double> times_ms, std::string_view trial) {
  if (times_ms.size() < kFewestToHalve) return {};
  const std::size_t half = times_ms.size() / 2;
  const double first = median(times_ms.first(half)), second = median(times_ms.last(half));
  if (!has_changed(first, second)) return {};
  return fmt::format("a {} took {} at first and {} later", trial, format_ms(first), format_ms(second));
}

double log_variance(const Visit& visit) { return log_median_variance(visit.image_ms) + visit.prologue_variance; }

/// The baseline's visits around a round.
struct BaselineVisits {
  std::vector<double> medians_ms;
  double variance = 0;
  std::string disturbance;
};

BaselineVisits baseline_around(std::span<const Visit> baseline, const VisitId& id) {
  BaselineVisits around;
  for (const Visit& visit : baseline) {
    if (visit.id.process != id.process || (visit.id.round != id.round && visit.id.round != id.round + 1)) continue;
    around.medians_ms.push_back(median(visit.image_ms));
    around.variance += log_variance(visit);
    if (!visit.disturbance.empty()) around.disturbance = fmt::format("the baseline around it: {}", visit.disturbance);
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, around.medians_ms.size()));
  around.variance /= count * count;
  if (around.disturbance.empty() && around.medians_ms.size() == 2 &&
      has_changed(around.medians_ms[0], around.medians_ms[1]))
    around.disturbance = fmt::format("the baseline took {} before it and {} after it", format_ms(around.medians_ms[0]),
                                     format_ms(around.medians_ms[1]));
  return around;
}

/// The sums of the terms over the rounds that all terms have.
RoundLogs common_rounds(std::span<const Term> terms) {
  RoundLogs common;
  for (const auto& [round, unused] : *terms.front().rounds) {
    if (!std::ranges::all_of(terms, [&](const Term& term) { return term.rounds->contains(round); })) continue;
    RoundLog& sum = common[round];
    for (const Term& term : terms) {
      sum.log += term.sign * term.rounds->at(round).log;
      sum.variance += term.rounds->at(round).variance;
    }
  }
  return common;
}

/// The first disturbed round or visit, "round 2: ...", and the number of others.
std::string first_of(const std::map<std::int64_t, std::string>& disturbed, std::string_view round = "round") {
  if (disturbed.empty()) return {};
  return fmt::format(" ({} {}: {}{})", round, disturbed.begin()->first + 1, disturbed.begin()->second,
                     disturbed.size() == 1 ? "" : fmt::format("; and {} more", disturbed.size() - 1));
}

std::string count_sound(std::size_t sound, std::size_t all, std::string_view round = "round") {
  if (sound == 1 && all == 1) return one_says_nothing(round);
  return sound == 0 ? fmt::format("none of {} {}s was undisturbed", all, round)
                    : fmt::format("only {} of {} {}s was undisturbed", sound, all, round);
}

std::string interval_of(const Factor& factor) {
  return fmt::format("{} to {}", format_factor(factor.interval->low), format_factor(factor.interval->high));
}

/// Why two or more undisturbed rounds do not settle a factor: they disagree; they agree but are too few for a
/// sufficiently narrow interval; or the times within them vary too much.
std::string why_not_settled(const RoundLogs& sound) {
  const Factor factor = factor_of(sound);
  const std::string range = fmt::format("{} to {}", format_factor(factor.range.low), format_factor(factor.range.high));
  const bool agree =
      factor.range.high <= factor.value * (1 + kSettledShare) && factor.range.low >= factor.value / (1 + kSettledShare);
  if (!agree) return fmt::format("its rounds disagree: {} of the baseline's speed", range);
  RoundLogs between = sound;
  for (auto& [round, one] : between) one.variance = 0;
  if (factor_of(between).is_settled())
    return fmt::format("times within its rounds vary too much: the factor may be {}", interval_of(factor));
  return fmt::format("too few undisturbed rounds: {} agree ({} of the baseline's speed), but the factor may be {}",
                     factor.rounds, range, interval_of(factor));
}

}  // namespace

std::string one_says_nothing(std::string_view visit) {
  return fmt::format("one {0} says nothing of how {0}s differ", visit);
}

std::vector<Trials> split_visits(const TrialSeries& series) {
  std::vector<Trials> visits;
  const bool has_rounds = !series.round.empty();
  for (std::size_t first = 0, end = 0; first < series.time_ms.size(); first = end) {
    const auto is_same = [&](std::size_t i) {
      return series.process[i] == series.process[first] && (!has_rounds || series.round[i] == series.round[first]);
    };
    while (end < series.time_ms.size() && is_same(end)) ++end;
    Trials trials{.wall_ms = {series.time_ms.begin() + static_cast<std::ptrdiff_t>(first),
                              series.time_ms.begin() + static_cast<std::ptrdiff_t>(end)},
                  .warmup = series.warmup,
                  .warmup_stable = series.warmup_stable,
                  .complete = series.complete,
                  .process = series.process[first],
                  .round = {},
                  .conditions = series.conditions.part(first, end - first)};
    if (has_rounds) trials.round = series.round[first];
    visits.push_back(std::move(trials));
  }
  return visits;
}

std::string_view trial_of_series(std::string_view what) { return what == "forward" ? "pass" : what; }

double steps_observed(const Result& result) {
  return result.computed_share.empty() ? 1 : static_cast<double>(result.computed_share.size());
}

std::string find_disturbance(const Trials& trials, double observed, std::string_view trial) {
  std::vector<double> observed_ms = trials.wall_ms;
  for (double& ms : observed_ms) ms *= observed;
  return find_disturbance(trials.conditions, observed_ms, trial);
}

std::vector<Visit> visits_of(const TrialSeries& series, double observed) {
  std::vector<Visit> visits;
  for (const Trials& trials : split_visits(series)) {
    const std::string_view trial = trial_of_series(series.what);
    Visit visit{
        .id = id_of(trials), .image_ms = trials.wall_ms, .disturbance = find_disturbance(trials, observed, trial)};
    if (visit.disturbance.empty()) visit.disturbance = find_drift(trials.wall_ms, trial);
    visits.push_back(std::move(visit));
  }
  return visits;
}

const TrialSeries* find_timed_series(const Result& result) {
  for (const char* what : {"step", "forward"})
    if (const TrialSeries* const found = find_series(result, what)) return found;
  return nullptr;
}

const TrialSeries& timed_series(const Result& result) {
  const TrialSeries* const found = find_timed_series(result);
  return found == nullptr ? series_of(result, "step") : *found;
}

bool is_of_pass(const Result& result) {
  const TrialSeries* const found = find_timed_series(result);
  return found != nullptr && found->what == "forward";
}

double steps_run(const Result& result) {
  constexpr std::string_view kSteps = "steps=", kSampler = "sampler=";
  const nlohmann::json& request = result.subject.request;
  double steps = request.at("steps").get<double>();
  std::string sampler = get_string_or(request, "sampler", "", "a result's request");
  for (const std::string& name : result.configuration.applied) {
    std::int64_t number = 0;
    if (name.starts_with(kSteps) &&
        std::from_chars(name.data() + kSteps.size(), name.data() + name.size(), number).ec == std::errc{})
      steps = static_cast<double>(number);
    if (name.starts_with(kSampler)) sampler = name.substr(kSampler.size(), name.find(':') - kSampler.size());
  }
  const std::optional<Sampler> known = find_sampler(sampler);
  return known ? static_cast<double>(count_calls(*known, static_cast<std::int64_t>(steps))) : steps;
}

std::vector<Visit> visits_of(const Result& result) {
  std::vector<Visit> visits = visits_of(timed_series(result), steps_observed(result));
  if (is_of_pass(result)) return visits;
  const double steps = steps_run(result), images = result.subject.request.at("images").get<double>();
  const auto of_image = [&](double prologue_ms, double step_ms) { return (prologue_ms + steps * step_ms) / images; };
  const TrialSeries* const prologue = find_series(result, "prologue");
  const std::vector<Trials> prologues = prologue == nullptr ? std::vector<Trials>{} : split_visits(*prologue);
  for (Visit& visit : visits) {
    double prologue_ms = 0;
    if (prologue != nullptr) {
      const auto found = std::ranges::find(prologues, visit.id, id_of);
      if (found == prologues.end())
        fail("'{}' has steps of round {} in process {}, and no prologue", result.id, visit.id.round, visit.id.process);
      prologue_ms = median(found->wall_ms);
      std::vector<double> of_prologues;  // images whose steps all take the median
      for (const double ms : found->wall_ms) of_prologues.push_back(of_image(ms, median(visit.image_ms)));
      visit.prologue_variance = log_median_variance(of_prologues);
    }
    for (double& ms : visit.image_ms) ms = of_image(prologue_ms, ms);
  }
  return visits;
}

bool Factor::is_settled() const {
  return rounds >= 2 && interval && interval->high <= value * (1 + kSettledShare) &&
         interval->low >= value / (1 + kSettledShare);
}

Factor factor_of(const RoundLogs& rounds) {
  HR_CHECK(!rounds.empty());
  const auto n = static_cast<double>(rounds.size());
  double mean = 0, within = 0, squares = 0;
  double low = rounds.begin()->second.log, high = low;
  for (const auto& [round, one] : rounds) {
    mean += one.log / n;
    within += one.variance / (n * n);
    low = std::min(low, one.log);
    high = std::max(high, one.log);
  }
  for (const auto& [round, one] : rounds) squares += (one.log - mean) * (one.log - mean);
  Factor factor{.value = std::exp(mean),
                .interval = {},
                .range = {std::exp(low), std::exp(high)},
                .rounds = static_cast<std::int64_t>(rounds.size())};
  if (rounds.size() < 2) return factor;
  const double between = students_t_quantile(n - 1, 0.975) * std::sqrt(squares / (n - 1) / n);
  const double half_width = std::max(between, normal_quantile(0.975) * std::sqrt(within));
  factor.interval = Interval{std::exp(mean - half_width), std::exp(mean + half_width)};
  return factor;
}

Factor factor_of(std::span<const Term> terms) {
  HR_CHECK(!terms.empty());
  if (const RoundLogs common = common_rounds(terms); common.size() >= 2) return factor_of(common);
  double log = 0, half_width = 0;
  Factor factor = factor_of(*terms.front().rounds);
  factor.interval.reset();
  bool has_interval = true;
  for (const Term& term : terms) {
    const Factor one = factor_of(*term.rounds);
    log += term.sign * std::log(one.value);
    has_interval = has_interval && one.interval.has_value();
    if (one.interval) half_width += std::log(one.interval->high / one.value);
    factor.rounds = std::min(factor.rounds, one.rounds);
  }
  factor.value = std::exp(log);
  factor.range = {factor.value, factor.value};
  if (has_interval) factor.interval = Interval{std::exp(log - half_width), std::exp(log + half_width)};
  return factor;
}

PairedRounds pair_rounds(std::span<const Visit> baseline, std::span<const Visit> rung) {
  PairedRounds paired;
  for (const Visit& visit : rung) {
    const BaselineVisits around = baseline_around(baseline, visit.id);
    if (around.medians_ms.empty()) continue;
    const RoundLog log{.log = std::log(geometric_mean(around.medians_ms) / median(visit.image_ms)),
                       .variance = around.variance + log_variance(visit)};
    paired.all[visit.id.round] = log;
    const std::string& disturbance = visit.disturbance.empty() ? around.disturbance : visit.disturbance;
    if (disturbance.empty())
      paired.sound[visit.id.round] = log;
    else
      paired.disturbed[visit.id.round] = disturbance;
  }
  return paired;
}

RoundLogs rounds_between(const Result& base, const Result& other) {
  const auto has_rounds = [](const Result& result) {
    const TrialSeries* const series = find_timed_series(result);
    return series != nullptr && !series->round.empty();
  };
  if (!has_rounds(base) || !has_rounds(other) || base.unsettled || other.unsettled) return {};
  const std::vector<Visit> base_visits = visits_of(base), other_visits = visits_of(other);
  if (base.configuration.applied.empty()) return pair_rounds(base_visits, other_visits).all;
  RoundLogs rounds;
  for (const Visit& one : base_visits)
    for (const Visit& visit : other_visits)
      if (visit.id == one.id)
        rounds[one.id.round] = {.log = std::log(median(one.image_ms) / median(visit.image_ms)),
                                .variance = log_variance(one) + log_variance(visit)};
  return rounds;
}

std::optional<Estimate> round_factor(const Result& base, const Result& other) {
  const RoundLogs rounds = rounds_between(base, other);
  if (rounds.empty()) return {};
  if (base.same_as.value_or(base.id) == other.same_as.value_or(other.id)) return Estimate{.value = 1, .interval = {}};
  const Factor factor = factor_of(rounds);
  return Estimate{.value = factor.value, .interval = factor.interval};
}

RungVerdict judge_rung(std::span<const Visit> baseline, std::span<const Visit> rung) {
  PairedRounds paired = pair_rounds(baseline, rung);
  RungVerdict verdict;
  if (paired.all.empty()) {
    verdict.unsettled = "the baseline was not measured around it";
    return verdict;
  }
  if (paired.sound.size() >= 2 && factor_of(paired.sound).is_settled()) {
    for (const Visit& visit : rung)
      if (!paired.sound.contains(visit.id.round)) verdict.left_out.push_back(visit.id);
    verdict.rounds = std::move(paired.sound);
    verdict.factor = factor_of(verdict.rounds);
    return verdict;
  }
  verdict.factor = factor_of(paired.all);
  verdict.unsettled =
      (paired.sound.size() < 2 ? count_sound(paired.sound.size(), paired.all.size()) : why_not_settled(paired.sound)) +
      first_of(paired.disturbed);
  verdict.rounds = std::move(paired.all);
  return verdict;
}

RungVerdict judge_baseline(std::span<const Visit> baseline) {
  RungVerdict verdict;
  std::map<std::int64_t, std::string> disturbed;  // by index: a ladder visits it once more often than it has rounds
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    if (baseline[i].disturbance.empty()) continue;
    verdict.left_out.push_back(baseline[i].id);
    disturbed.emplace(i, baseline[i].disturbance);
  }
  const std::size_t sound = baseline.size() - verdict.left_out.size();
  if (sound >= 2) return verdict;
  verdict.left_out.clear();
  verdict.unsettled = sound == 1 && disturbed.empty()
                          ? "it was measured once"
                          : count_sound(sound, baseline.size(), "visit") + first_of(disturbed, "visit");
  return verdict;
}

void add_visit(Result& result, const std::string& what, const Trials& trials) {
  const auto found = std::ranges::find(result.trials, what, &TrialSeries::what);
  if (found == result.trials.end()) {
    result.trials.push_back(make_series(what, trials));
    return;
  }
  std::vector<Trials> visits = split_visits(*found);
  visits.push_back(trials);
  *found = make_series(what, visits);
}

void leave_out(Result& result, std::span<const VisitId> visits) {
  std::vector<TrialSeries> apart;
  for (TrialSeries& series : result.trials) {
    std::vector<Trials> kept, left;
    for (Trials& trials : split_visits(series)) {
      (std::ranges::find(visits, id_of(trials)) == visits.end() ? kept : left).push_back(std::move(trials));
    }
    if (left.empty() || kept.empty()) continue;
    apart.push_back(make_series(fmt::format("{}{}", series.what, kLeftOut), left));
    series = make_series(series.what, kept);
  }
  for (TrialSeries& series : apart) result.trials.push_back(std::move(series));
}

}  // namespace headroom
