#include "measure/protocol/ladder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "measure/results/describe.hpp"
#include "measure/results/timing.hpp"

namespace headroom {
namespace {

bool is_visited(const Rung& rung) { return !rung.result.id.empty(); }

bool has_visit(const Rung& rung, std::int64_t round) {
  if (rung.result.trials.empty()) return false;
  const std::vector<std::int64_t>& rounds = timed_series(rung.result).round;
  return std::ranges::find(rounds, round) != rounds.end();
}

/// Indices of the rungs to visit in a round, without the baseline.
std::vector<std::size_t> rungs_of_round(const Ladder& ladder, std::int64_t round, bool only_unsettled) {
  std::vector<Visit> baseline;
  if (only_unsettled) baseline = visits_of(ladder.rungs.front().result);
  std::vector<std::size_t> rungs;
  for (std::size_t i = 1; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    if (rung.result.same_as || is_out_of_memory(rung.result) || has_visit(rung, round)) continue;
    if (only_unsettled && judge_rung(baseline, visits_of(rung.result)).unsettled.empty()) continue;
    rungs.push_back(i);
  }
  if (round % 2 != 0) std::ranges::reverse(rungs);
  return rungs;
}

const Rung& find_rung(const Ladder& ladder, const std::string& name) {
  const auto found = std::ranges::find(ladder.rungs, name, &Rung::name);
  HR_CHECK(found != ladder.rungs.end());
  return *found;
}

void set_image_times(Rung& rung) {
  const std::optional<Timing> timing = timing_of(rung.result);
  HR_CHECK(timing.has_value());
  rung.image_ms = timing->median_ms;
  rung.image_interval_ms = timing->interval_ms;
}

/// Copies the figures to a rung that equals another one.
void copy_figures(Rung& rung, const Rung& same) {
  rung.result.trials = same.result.trials;
  rung.result.memory = same.result.memory;
  rung.result.stages = same.result.stages;
  rung.result.plan = same.result.plan;
  rung.result.unsettled = same.result.unsettled;
  for (const QualityRecord& record : same.result.quality)
    if (std::ranges::find(rung.result.quality, record.metric, &QualityRecord::metric) == rung.result.quality.end())
      rung.result.quality.push_back(record);
  rung.image_ms = same.image_ms;
  rung.image_interval_ms = same.image_interval_ms;
}

using Verdicts = std::map<std::string, RungVerdict>;  // by name; a rung that equals another one has the other's verdict

std::optional<Factor> factor_where_settled(const Verdicts& verdicts, std::span<const std::string> names,
                                           std::span<const Term> terms) {
  const auto is_settled = [&](const std::string& name) { return verdicts.at(name).unsettled.empty(); };
  const auto has_no_rounds = [](const Term& term) { return term.rounds->empty(); };
  if (terms.empty() || !std::ranges::all_of(names, is_settled) || std::ranges::any_of(terms, has_no_rounds)) return {};
  return factor_of(terms);
}

void summarize(Ladder& ladder, const Verdicts& verdicts) {
  std::vector<std::string> names;
  std::vector<Term> product;
  for (const Rung& rung : ladder.rungs) {
    if (rung.cumulative || rung.switches.empty() || rung.result.same_as) continue;
    names.push_back(rung.name);
    product.push_back({&verdicts.at(rung.name).rounds, 1});
  }
  const std::string& last = ladder.rungs.back().name;
  const std::vector<Term> all = {{&verdicts.at(last).rounds, 1}};
  if (!ladder.rungs.back().switches.empty()) ladder.combined = factor_where_settled(verdicts, {&last, 1}, all);
  ladder.product_of_singles = factor_where_settled(verdicts, names, product);
  if (!ladder.combined || !ladder.product_of_singles) return;
  for (Term& term : product) term.sign = -1;
  product.push_back(all.front());
  ladder.synergy = factor_of(product);
}

}  // namespace

Ladder make_ladder(const SwitchSet& switches, bool only_ends) {
  Ladder ladder;
  const auto add = [&](const SwitchSet& set, bool cumulative) {
    Rung& rung = ladder.rungs.emplace_back();
    rung.name = set.empty() ? "baseline" : fmt::format("{}", fmt::join(set.names(), "+"));
    rung.switches = set;
    rung.cumulative = cumulative;
  };
  add({}, false);
  if (only_ends) {
    if (!switches.empty()) add(switches, false);
    return ladder;
  }
  const std::vector<SwitchSet> singles = switches.singles();
  for (const SwitchSet& single : singles) add(single, false);
  SwitchSet so_far;
  for (std::size_t i = 0; i < singles.size(); ++i) {
    so_far = so_far.with(singles[i]);
    if (i > 0) add(so_far, true);  // the first switch alone is already measured
  }
  return ladder;
}

const Rung& before(const Ladder& ladder, const Rung& rung) {
  if (!rung.cumulative) return ladder.rungs.front();
  const auto i = static_cast<std::size_t>(&rung - ladder.rungs.data());
  return ladder.rungs[i - 1].cumulative ? ladder.rungs[i - 1] : ladder.rungs[1];
}

void climb(Ladder& ladder, int rounds, int max_rounds, const RoundRun& run) {
  if (rounds < 2) fail_usage("{} rounds were asked for; at least 2 are needed to see whether they agree", rounds);
  if (max_rounds < rounds)
    fail_usage("at most {} rounds were asked for, and {} at least; the most cannot be below the least", max_rounds,
               rounds);
  for (std::int64_t round = 0; round < max_rounds; ++round) {
    const std::vector<std::size_t> rungs = rungs_of_round(ladder, round, round >= rounds);
    // With no other rungs, rounds still have to visit the baseline.
    const bool is_bare = ladder.rungs.size() == 1 && round < rounds && !has_visit(ladder.rungs.front(), round + 1);
    if (rungs.empty() && !is_bare) continue;
    run(ladder, round, rungs);
  }
  settle(ladder);
}

void settle(Ladder& ladder) {
  Verdicts verdicts;
  const std::vector<Visit> baseline = visits_of(ladder.rungs.front().result);
  for (Rung& rung : ladder.rungs) {
    if (rung.result.same_as) continue;
    if (is_out_of_memory(rung.result)) {
      verdicts[rung.name].unsettled = rung.result.unsettled.value_or("it does not fit in memory");
      continue;
    }
    RungVerdict verdict =
        &rung == &ladder.rungs.front() ? judge_baseline(baseline) : judge_rung(baseline, visits_of(rung.result));
    if (!verdict.unsettled.empty()) rung.result.unsettled = verdict.unsettled;
    rung.on_baseline = verdict.factor;
    leave_out(rung.result, verdict.left_out);
    set_image_times(rung);
    verdicts.emplace(rung.name, std::move(verdict));
  }
  // The baseline's factor relative to itself is 1 in every round of any rung.
  RungVerdict& own = verdicts.at(ladder.rungs.front().name);
  for (const auto& [name, verdict] : verdicts)
    for (const auto& [round, log] : verdict.rounds) own.rounds.emplace(round, RoundLog{});
  for (Rung& rung : ladder.rungs) {
    if (rung.result.same_as) {
      const Rung& same = find_rung(ladder, *rung.result.same_as);
      copy_figures(rung, same);
      rung.on_baseline = same.on_baseline;
      verdicts.emplace(rung.name, RungVerdict(verdicts.at(same.name)));
    }
    const Rung& lower = before(ladder, rung);
    const std::vector<Term> terms = {{&verdicts.at(rung.name).rounds, 1}, {&verdicts.at(lower.name).rounds, -1}};
    if (std::ranges::none_of(terms, [](const Term& term) { return term.rounds->empty(); }))
      rung.on_before = factor_of(terms);
  }
  summarize(ladder, verdicts);
}

void add_round(Ladder& ladder, const ResultFile& measured, std::int64_t process) {
  ladder.plans.insert(measured.plans.begin(), measured.plans.end());
  for (const Result& result : measured.results) {
    const auto rung = std::ranges::find(ladder.rungs, result.id, &Rung::name);
    if (rung == ladder.rungs.end()) fail("another process measured '{}', which is no rung of this ladder", result.id);
    const std::vector<TrialSeries> all = result.trials;
    if (!is_visited(*rung)) {
      rung->result = result;
      rung->result.trials.clear();
    }
    for (const TrialSeries& series : all)
      for (Trials& trials : split_visits(series)) {
        trials.process = process;
        add_visit(rung->result, series.what, trials);
      }
  }
}

ResultFile to_results(const Ladder& ladder) {
  ResultFile file = begin_result_file();
  file.plans = ladder.plans;
  for (const Rung& rung : ladder.rungs)
    if (is_visited(rung)) file.results.push_back(rung.result);
  return file;
}

std::int64_t images_of(const RequestOptions& request, const Pipeline& pipeline) {
  if (request.images != 0) return request.images;
  return std::max<std::int64_t>(std::ssize(pipeline.labels()), 1);
}

}  // namespace headroom
