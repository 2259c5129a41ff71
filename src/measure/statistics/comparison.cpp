#include "measure/statistics/comparison.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "measure/results/fingerprint.hpp"
#include "measure/results/import.hpp"
#include "measure/results/timing.hpp"
#include "measure/statistics/holm.hpp"
#include "measure/suites/benchmark_names.hpp"

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

/// The only result of the same work, if each side has exactly one. Its name may differ, because a preset has been
/// extended or another configuration is compared.
const Result* find_only(const Result& wanted, const std::vector<Result>& own, const std::vector<Result>& results) {
  const auto of_work = [&](const Result& one) { return is_same_work(wanted, one); };
  if (std::ranges::count_if(own, of_work) != 1 || std::ranges::count_if(results, of_work) != 1) return nullptr;
  return &*std::ranges::find_if(results, of_work);
}

const Result* find_match(const Result& wanted, const std::vector<Result>& own, const std::vector<Result>& results) {
  const Result* same = find_same(wanted, results);
  return same != nullptr ? same : find_only(wanted, own, results);
}

/// Whether two files hold one benchmark each of one other program. Such files describe no work beyond a name, which is
/// the command, or even the file.
bool are_one_imported_each(const std::vector<Result>& own, const std::vector<Result>& results) {
  return own.size() == 1 && results.size() == 1 && is_imported(own.front()) &&
         own.front().source.name == results.front().source.name;
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

/// The revisions of a side's files: one, unless they are of several.
std::string revisions_of(std::span<const NamedResults> files) {
  std::vector<std::string> revisions;
  for (const auto& [name, file] : files) {
    std::string revision = file.machine.build ? file.machine.build->git_revision : "unknown";
    if (std::ranges::find(revisions, revision) == revisions.end()) revisions.push_back(std::move(revision));
  }
  return list_names(revisions);
}

constexpr const char* kFrames = "frame in to frame out";

std::vector<std::string> series_names(const Result& base, const Result& changed, const std::string& wanted) {
  if (base.latency && changed.latency) return {kFrames};
  if (wanted.empty()) return {base.trials.front().what};
  if (wanted != "all") return {wanted};
  std::vector<std::string> names;
  for (const TrialSeries& series : base.trials)
    if (find_series(changed, series.what) != nullptr) names.push_back(series.what);
  return names;
}

/// Whether another program reports that it could not measure this result; the rest of its file is still compared.
bool failed_elsewhere(const Result& result) { return result.trials.empty() && is_imported(result); }

/// The latencies of a stream as trials of one process.
ProcessTrials trials_of(const Result& result, const std::string& what) {
  if (result.latency) return {result.latency->latency_ms};
  return trials_by_process(series_of(result, what));
}

/// Why the times of either side are not reliable; empty if both are.
std::string unsettled_side(const Result& base, const Result& changed) {
  if (const std::optional<std::string> why = why_unsettled(base)) return fmt::format("the base is unsettled: {}", *why);
  if (const std::optional<std::string> why = why_unsettled(changed))
    return fmt::format("the new is unsettled: {}", *why);
  return {};
}

bool has_times(const Result& result) { return !result.trials.empty() || result.latency; }

/// A result on the new side, with its file.
struct Match {
  const NamedResults* file = nullptr;
  const Result* result = nullptr;
};

class Comparer {
 public:
  Comparer(std::span<const NamedResults> base, std::span<const NamedResults> changed, const ComparisonOptions& options)
      : base_(base), changed_(changed), options_(options) {
    for (const auto& side : {base, changed})
      for (const NamedResults& file : side) names_.add(file.second);
  }

  Comparison compare() {
    comparison_ = {.base_revision = revisions_of(base_),
                   .new_revision = revisions_of(changed_),
                   .rule = options_.rule,
                   .limits = options_.limits,
                   .benchmarks = {},
                   .only_in_base = {},
                   .only_in_new = {},
                   .forced = {}};
    std::set<const Result*> matched;
    for (const NamedResults& file : base_)
      for (const Result& result : file.second.results) {
        if (failed_elsewhere(result)) continue;
        const Match place = find_place(file, result);
        if (place.result == nullptr) {
          comparison_.only_in_base.push_back(names_.of(file.second.machine, result));
          continue;
        }
        matched.insert(place.result);
        add_machine_differences(file.second, place.file->second);
        compare_one(name_of_both(file, result, place), result, *place.result);
      }
    for (const NamedResults& file : changed_)
      for (const Result& result : file.second.results)
        if (!failed_elsewhere(result) && !matched.contains(&result))
          comparison_.only_in_new.push_back(names_.of(file.second.machine, result));
    check();
    judge();
    note_process_noise();
    if (is_same_content())
      comparison_.notes.emplace_back(
          "both sides hold the same measurements, so nothing can differ: compare with another run");
    return std::move(comparison_);
  }

 private:
  /// A result's counterpart on the new side: in the file of the same name, or in the only file that has
  /// it.
  Match find_place(const NamedResults& file, const Result& wanted) const {
    std::vector<Match> places;
    for (const NamedResults& other : changed_)
      if (const Result* found = find_match(wanted, file.second.results, other.second.results); found != nullptr)
        places.push_back({.file = &other, .result = found});
    if (places.empty() && base_.size() == 1 && changed_.size() == 1 &&
        are_one_imported_each(file.second.results, changed_.front().second.results))
      return {.file = &changed_.front(), .result = &changed_.front().second.results.front()};
    if (places.size() <= 1) return places.empty() ? Match{} : places.front();
    const auto same = std::ranges::find_if(places, [&](const Match& place) { return place.file->first == file.first; });
    if (same != places.end()) return *same;
    fail("{} of {} is in several files, {} and {}: compare single files, or give them the names of the base's",
         names_.of(file.second.machine, wanted), file.first, places[0].file->first, places[1].file->first);
  }

  /// "tiny-dit lossless", or "tiny-dit arena against lossless" for two configurations of one work.
  std::string name_of_both(const NamedResults& file, const Result& base, const Match& changed) const {
    const Machine &base_machine = file.second.machine, &new_machine = changed.file->second.machine;
    const std::string of_base = shown_name(base_machine, base), of_new = shown_name(new_machine, *changed.result);
    const std::string name = names_.of(new_machine, *changed.result);
    return of_base == of_new ? name : fmt::format("{} against {}", name, of_base);
  }

  void add_machine_differences(const ResultFile& base, const ResultFile& changed) {
    for (const std::string& difference : machine_differences(base.machine, changed.machine))
      if (std::ranges::find(comparison_.forced, difference) == comparison_.forced.end())
        comparison_.forced.push_back(difference);
  }

  /// Throws Error if nothing matches, or if there are differences and `force` is not set.
  void check() {
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
  }

  /// What `process_noise` would judge, or that it was not needed.
  void note_process_noise() {
    const auto is_of_one = [](const ComparedBenchmark& one) {
      return one.is_timed && !one.effect.paired && one.effect.base_processes == 1 && one.effect.new_processes == 1;
    };
    const bool has_one = std::ranges::any_of(comparison_.benchmarks, is_of_one);
    if (options_.process_noise && !has_one)
      comparison_.notes.emplace_back("--process-noise changes nothing: no benchmark has one process on each side");
    // With fewer trials or unsettled times it would not be judged either.
    const auto would_be_judged = [&](const ComparedBenchmark& one) {
      return is_of_one(one) && one.effect.limit == kOneProcessEach && one.unsettled.empty();
    };
    if (!options_.process_noise && std::ranges::any_of(comparison_.benchmarks, would_be_judged))
      comparison_.notes.emplace_back(
          "one process on each side: --process-noise 3% judges it, if processes of one build differ by 3%");
  }

  bool is_same_content() const {
    return std::ranges::equal(
        base_, changed_, {}, [](const NamedResults& file) -> const ResultFile& { return file.second; },
        [](const NamedResults& file) -> const ResultFile& { return file.second; });
  }

  void compare_one(const std::string& name, const Result& base, const Result& changed) {
    for (const std::string& difference : configuration_differences(base.configuration, changed.configuration))
      differences_[difference].push_back(name);
    // Networks of several pipelines are called "transformer", and all checkpoints of training "step-00000020".
    const std::optional<std::int64_t>&own = base.subject.parameters, &other = changed.subject.parameters;
    if (own && other && *own != *other)
      differences_[fmt::format("parameters of the model: {} against {}", *other, *own)].push_back(name);
    const bool one_fits = is_out_of_memory(base) != is_out_of_memory(changed);
    const std::size_t first = comparison_.benchmarks.size();
    if (has_times(base) && has_times(changed)) {
      for (const std::string& what : series_names(base, changed, options_.series))
        compare_times(name, base, changed, what);
    } else if (has_times(base) == has_times(changed) || one_fits) {
      comparison_.benchmarks.push_back(
          {.name = name, .effect = {}, .p = 1, .judged = {}, .notes = {}, .is_timed = false});
    } else {
      fail("{} has no trials in the {} file, so it cannot be compared", name, has_times(base) ? "new" : "base");
    }
    if (comparison_.benchmarks.size() == first) return;  // no series in common
    ComparedBenchmark& one = comparison_.benchmarks[first];
    for (ComparedQuantity& quantity : compare_quantities(base, changed, options_.limits, comparison_.notes))
      one.quantities.push_back(std::move(quantity));
    if (base.configuration.applied != changed.configuration.applied)
      one.notes.push_back(fmt::format("switches applied: {} against {}", list_switches(changed.configuration.applied),
                                      list_switches(base.configuration.applied)));
  }

  void compare_times(const std::string& name, const Result& base, const Result& changed, const std::string& what) {
    const ProcessTrials base_trials = trials_of(base, what), new_trials = trials_of(changed, what);
    ComparedBenchmark& one = comparison_.benchmarks.emplace_back();
    one.name = base.trials.size() > 1 ? fmt::format("{}, {}", name, what) : name;
    one.base_ms = median_of_medians(base_trials);
    one.new_ms = median_of_medians(new_trials);
    one.unsettled = unsettled_side(base, changed);
    one.is_own = base.source.name == Source{}.name;
    one.effect = options_.paired ? paired_effect(base_trials, new_trials)
                                 : unpaired_effect(base_trials, new_trials, options_.process_noise);
    if (!options_.limits.is_off(Quantity::kP99))
      one.quantities.push_back(compare_p99(base_trials, new_trials, one.effect, options_.limits));
  }

  /// Holm's adjustment covers every p: the times of all benchmarks, their p99s and their qualities. Unsettled times
  /// and their p99s are INCONCLUSIVE.
  void judge() {
    std::vector<double> p_values;
    for (const ComparedBenchmark& one : comparison_.benchmarks) {
      if (one.is_timed) p_values.push_back(one.effect.p);
      for (const ComparedQuantity& quantity : one.quantities)
        if (quantity.p) p_values.push_back(*quantity.p);
    }
    const std::vector<double> adjusted = holm_adjust(p_values);
    auto next = adjusted.begin();
    for (ComparedBenchmark& one : comparison_.benchmarks) {
      if (one.is_timed) {
        one.p = *next++;
        one.judged = one.unsettled.empty() ? judge_effect(one.effect, one.p, options_.rule)
                                           : Judged{Verdict::kInconclusive, one.unsettled};
      }
      for (ComparedQuantity& quantity : one.quantities) {
        if (quantity.p) quantity.p = *next++;
        quantity.judged = quantity.effect && !one.unsettled.empty()
                              ? Judged{Verdict::kInconclusive, one.unsettled}
                              : judge_quantity(quantity, options_.limits, options_.rule.alpha);
      }
    }
  }

  std::span<const NamedResults> base_;
  std::span<const NamedResults> changed_;
  const ComparisonOptions& options_;
  BenchmarkNames names_;
  std::map<std::string, std::vector<std::string>> differences_;  // of configurations, with the names that have them
  Comparison comparison_;
};

}  // namespace

Comparison compare_results(const ResultFile& base, const ResultFile& changed, const ComparisonOptions& options) {
  const NamedResults named_base("the base file", base), named_new("the new file", changed);
  return Comparer({&named_base, 1}, {&named_new, 1}, options).compare();
}

Comparison compare_results(std::span<const NamedResults> base, std::span<const NamedResults> changed,
                           const ComparisonOptions& options) {
  HR_CHECK(!base.empty() && !changed.empty());
  return Comparer(base, changed, options).compare();
}

bool is_settled(const Comparison& comparison) {
  const VerdictRule& rule = comparison.rule;
  return std::ranges::all_of(comparison.benchmarks, [&](const ComparedBenchmark& one) {
    return (!one.is_timed || is_settled(one.effect, one.judged, rule)) &&
           std::ranges::all_of(one.quantities, [&](const ComparedQuantity& quantity) {
             return is_settled(quantity, comparison.limits, rule.alpha);
           });
  });
}

}  // namespace headroom
