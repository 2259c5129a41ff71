#include "measure/comparison.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "measure/benchmark_names.hpp"
#include "measure/fingerprint.hpp"
#include "measure/holm.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

ProcessTrials trials_by_process(const TrialSeries& series) {
  std::map<std::int64_t, std::vector<double>> by_process;
  for (std::size_t i = 0; i < series.time_ms.size(); ++i) by_process[series.process[i]].push_back(series.time_ms[i]);
  ProcessTrials processes;
  for (auto& [process, trials] : by_process) processes.push_back(std::move(trials));
  return processes;
}

double median_of_medians(const ProcessTrials& processes) {
  std::vector<double> medians;
  for (const std::vector<double>& trials : processes) medians.push_back(median(trials));
  return median(medians);
}

bool is_same_work(const Result& a, const Result& b) {
  return work_hash(a.subject) == work_hash(b.subject) && a.source.name == b.source.name;
}

const Result* find_same(const Result& wanted, const std::vector<Result>& results) {
  const auto found = std::ranges::find_if(
      results, [&](const Result& one) { return is_same_work(wanted, one) && one.name == wanted.name; });
  return found == results.end() ? nullptr : &*found;
}

/// The only result of the same work, where there is one on each side: its name may differ, because a preset has come to
/// mean more or another configuration is compared.
const Result* find_only(const Result& wanted, const std::vector<Result>& own, const std::vector<Result>& results) {
  const auto of_work = [&](const Result& one) { return is_same_work(wanted, one); };
  if (std::ranges::count_if(own, of_work) != 1 || std::ranges::count_if(results, of_work) != 1) return nullptr;
  return &*std::ranges::find_if(results, of_work);
}

const Result* find_match(const Result& wanted, const std::vector<Result>& own, const std::vector<Result>& results) {
  const Result* same = find_same(wanted, results);
  return same != nullptr ? same : find_only(wanted, own, results);
}

std::string list_switches(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ","));
}

/// The first few: a suite has dozens.
std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kFew = 3;
  if (names.empty()) return "none";
  const auto first = names.begin() + static_cast<std::ptrdiff_t>(std::min(kFew, names.size()));
  const std::string list = fmt::format("{}", fmt::join(names.begin(), first, ", "));
  return names.size() > kFew ? fmt::format("{} and {} more", list, names.size() - kFew) : list;
}

std::string revision_of(const ResultFile& file) {
  return file.machine.build ? file.machine.build->git_revision : "unknown";
}

std::vector<std::string> series_names(const Result& base, const Result& changed, const std::string& wanted) {
  if (wanted.empty()) return {base.trials.front().what};
  if (wanted != "all") return {wanted};
  std::vector<std::string> names;
  for (const TrialSeries& series : base.trials)
    if (std::ranges::find(changed.trials, series.what, &TrialSeries::what) != changed.trials.end())
      names.push_back(series.what);
  return names;
}

class Comparer {
 public:
  Comparer(const ResultFile& base, const ResultFile& changed, const ComparisonOptions& options)
      : base_(base), changed_(changed), options_(options) {
    names_.add(base);
    names_.add(changed);
  }

  Comparison compare() {
    comparison_ = {.base_revision = revision_of(base_),
                   .new_revision = revision_of(changed_),
                   .rule = options_.rule,
                   .benchmarks = {},
                   .only_in_base = {},
                   .only_in_new = {},
                   .forced = machine_differences(base_.machine, changed_.machine)};
    for (const Result& result : base_.results) {
      const Result* same = find_match(result, base_.results, changed_.results);
      if (same == nullptr)
        comparison_.only_in_base.push_back(names_.of(result));
      else
        compare_one(result, *same);
    }
    for (const Result& result : changed_.results)
      if (find_match(result, changed_.results, base_.results) == nullptr)
        comparison_.only_in_new.push_back(names_.of(result));
    if (comparison_.benchmarks.empty())
      fail(
          "nothing can be compared: no work was measured in both files, by one program under one name; the base has "
          "{}; the new has {}",
          list_names(comparison_.only_in_base), list_names(comparison_.only_in_new));
    for (const auto& [difference, names] : differences_)
      comparison_.forced.push_back(fmt::format("{} of {}", difference, list_names(names)));
    if (!comparison_.forced.empty() && !options_.force)
      fail("times of different machines, builds or configurations are not compared unless forced (--force): {}",
           fmt::join(comparison_.forced, "; "));
    judge();
    return std::move(comparison_);
  }

 private:
  void compare_one(const Result& base, const Result& changed) {
    const std::string name = base.name == changed.name
                                 ? names_.of(base)
                                 : fmt::format("{} against {}", names_.of(changed), shown_name(base));
    for (const std::string& difference : configuration_differences(base.configuration, changed.configuration))
      differences_[difference].push_back(name);
    if (base.trials.empty() || changed.trials.empty()) fail("{} has no trials, so it cannot be compared", name);
    for (const std::string& what : series_names(base, changed, options_.series)) {
      const ProcessTrials base_trials = trials_by_process(series_of(base, what));
      const ProcessTrials new_trials = trials_by_process(series_of(changed, what));
      comparison_.benchmarks.push_back(
          {.name = base.trials.size() > 1 ? fmt::format("{}, {}", name, what) : name,
           .base_ms = median_of_medians(base_trials),
           .new_ms = median_of_medians(new_trials),
           .effect = options_.paired ? paired_effect(base_trials, new_trials)
                                     : unpaired_effect(base_trials, new_trials, options_.process_noise),
           .p = 1,
           .judged = {},
           .notes = {}});
      if (base.configuration.applied != changed.configuration.applied)
        comparison_.benchmarks.back().notes.push_back(fmt::format("switches applied: {} against {}",
                                                                  list_switches(base.configuration.applied),
                                                                  list_switches(changed.configuration.applied)));
    }
  }

  void judge() {
    std::vector<double> p_values;
    for (const ComparedBenchmark& one : comparison_.benchmarks) p_values.push_back(one.effect.p);
    p_values = holm_adjust(p_values);
    for (std::size_t i = 0; i < p_values.size(); ++i) {
      ComparedBenchmark& one = comparison_.benchmarks[i];
      one.p = p_values[i];
      one.judged = judge_effect(one.effect, one.p, options_.rule);
    }
  }

  const ResultFile& base_;
  const ResultFile& changed_;
  const ComparisonOptions& options_;
  BenchmarkNames names_;
  std::map<std::string, std::vector<std::string>> differences_;  // of configurations: the names that differ so
  Comparison comparison_;
};

std::int64_t count(const Comparison& comparison, Verdict verdict) {
  return std::ranges::count_if(comparison.benchmarks,
                               [&](const ComparedBenchmark& one) { return one.judged.verdict == verdict; });
}

std::string p_text(double p) { return p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p); }

/// What the reader of a table should know besides: one line each.
std::string remarks(const Comparison& comparison) {
  std::string text;
  for (const ComparedBenchmark& one : comparison.benchmarks)
    for (const std::string& note : one.notes) text += fmt::format("note: {}: {}\n", one.name, note);
  if (!comparison.only_in_base.empty())
    text += fmt::format("only in the base: {}\n", fmt::join(comparison.only_in_base, ", "));
  if (!comparison.only_in_new.empty())
    text += fmt::format("only in the new: {}\n", fmt::join(comparison.only_in_new, ", "));
  for (const std::string& difference : comparison.forced)
    text += fmt::format("forced, though they differ: {}\n", difference);
  const auto is_unpaired = [](const ComparedBenchmark& one) { return !one.effect.paired; };
  if (std::ranges::any_of(comparison.benchmarks, is_unpaired))
    text += "stored times: running the base binary again beside the new one (bench --against) is better evidence\n";
  return text;
}

}  // namespace

Comparison compare_results(const ResultFile& base, const ResultFile& changed, const ComparisonOptions& options) {
  return Comparer(base, changed, options).compare();
}

bool is_settled(const Comparison& comparison) {
  return std::ranges::all_of(comparison.benchmarks, [&](const ComparedBenchmark& one) {
    return is_settled(one.effect, one.judged, comparison.rule);
  });
}

ExitCode exit_code_of(const Comparison& comparison) {
  if (count(comparison, Verdict::kRegressed) > 0) return ExitCode::kRegression;
  return count(comparison, Verdict::kInconclusive) > 0 ? ExitCode::kInconclusive : ExitCode::kOk;
}

Printout to_table(const Comparison& comparison) {
  Table table;
  table.add_column(Column{.header = "benchmark", .align = Align::kLeft, .least = 18});
  table.add_column(Column{.header = "base", .priority = 3, .fields = {"base_ms"}});
  table.add_column(Column{.header = "new", .priority = 2, .fields = {"new_ms"}});
  table.add_column(Column{.header = "new/base", .fields = {"ratio"}});
  table.add_column(Column{.header = "95% interval", .fields = {"ratio_low", "ratio_high"}});
  table.add_column(Column{.header = "p", .priority = 4});
  table.add_column(Column{.header = "processes", .priority = 5, .fields = {"base_processes", "new_processes"}});
  table.add_column(Column{.header = "verdict", .align = Align::kLeft});
  table.add_column(Column{.header = "why", .align = Align::kLeft, .least = 18});
  for (const ComparedBenchmark& one : comparison.benchmarks) {
    const Effect& effect = one.effect;
    const auto& interval = effect.interval;
    table.add_row({one.name, ms_cell(one.base_ms), ms_cell(one.new_ms),
                   number_cell(effect.ratio, fmt::format("{:.3f}", effect.ratio)),
                   interval ? Cell(fmt::format("[{:.3f}, {:.3f}]", interval->low, interval->high),
                                   {exact_number(interval->low), exact_number(interval->high)})
                            : no_value(),
                   number_cell(one.p, p_text(one.p)),
                   Cell(effect.paired ? format_count(effect.base_processes, "pair")
                                      : fmt::format("{}, {}", effect.base_processes, effect.new_processes),
                        {fmt::format("{}", effect.base_processes), fmt::format("{}", effect.new_processes)}),
                   std::string(name_of(one.judged.verdict)), one.judged.why});
  }
  std::vector<std::string> counts;
  for (const Verdict verdict : {Verdict::kRegressed, Verdict::kImproved, Verdict::kOk, Verdict::kInconclusive})
    if (const std::int64_t n = count(comparison, verdict); n > 0)
      counts.push_back(fmt::format("{} {}", n, name_of(verdict)));
  Printout printout(std::move(table));
  printout.add(remarks(comparison) +
               fmt::format("{} against {}, threshold {}%: {}\n", comparison.new_revision, comparison.base_revision,
                           format_significant(100 * comparison.rule.threshold), fmt::join(counts, ", ")));
  return printout;
}

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json benchmarks = nlohmann::json::array();
  for (const ComparedBenchmark& one : comparison.benchmarks) {
    const Effect& effect = one.effect;
    nlohmann::json& entry = benchmarks.emplace_back(nlohmann::json{{"name", one.name},
                                                                   {"base_ms", one.base_ms},
                                                                   {"new_ms", one.new_ms},
                                                                   {"ratio", effect.ratio},
                                                                   {"p", one.p},
                                                                   {"base_processes", effect.base_processes},
                                                                   {"new_processes", effect.new_processes},
                                                                   {"paired", effect.paired},
                                                                   {"verdict", name_of(one.judged.verdict)},
                                                                   {"why", one.judged.why},
                                                                   {"notes", one.notes}});
    if (effect.interval) entry["interval"] = {{"low", effect.interval->low}, {"high", effect.interval->high}};
  }
  return {{"schema", kComparisonSchema},
          {"base_revision", comparison.base_revision},
          {"new_revision", comparison.new_revision},
          {"threshold", comparison.rule.threshold},
          {"alpha", comparison.rule.alpha},
          {"benchmarks", std::move(benchmarks)},
          {"only_in_base", comparison.only_in_base},
          {"only_in_new", comparison.only_in_new},
          {"forced", comparison.forced}};
}

}  // namespace headroom
