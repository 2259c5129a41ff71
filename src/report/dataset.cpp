#include "report/dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>

#include "base/error.hpp"
#include "base/text/printable.hpp"
#include "measure/gates/history.hpp"
#include "measure/probes/hardware.hpp"
#include "measure/results/import.hpp"
#include "measure/results/result_folder.hpp"
#include "measure/suites/benchmark_names.hpp"

namespace headroom {
namespace {

std::string label_of(const Machine& machine, const Result& result) {
  if (is_imported(result)) return result.name;
  if (result.source.name != "headroom") {
    if (result.name.starts_with(result.source.name)) return result.name;
    return fmt::format("{} {}", result.source.name, result.name);
  }
  return shown_name(machine, result);
}

/// The hardware of a measurement. Other programs do not name their vector units; these are taken from the files of
/// the same folder with the same hardware, or else from all others, if they agree.
std::string hardware_of(const Measurement& m, const std::deque<std::pair<std::string, ResultFile>>& files) {
  const Configuration& configuration = m.result->configuration;
  std::string described = describe_hardware(m.file->machine, configuration);
  if (m.file->machine.cpu_isa) return described;
  const auto folder_of = [](const std::string& path) { return std::filesystem::path(path).parent_path(); };
  std::set<std::string> here, anywhere;
  for (const auto& [path, file] : files) {
    const Machine& machine = file.machine;
    if (!machine.cpu_isa) continue;
    Machine rest = machine;
    rest.cpu_isa.reset();
    if (describe_hardware(rest, configuration) != described) continue;
    anywhere.insert(describe_hardware(machine, configuration));
    if (folder_of(path) == folder_of(m.path)) here.insert(describe_hardware(machine, configuration));
  }
  const std::set<std::string>& known = here.empty() ? anywhere : here;
  return known.size() == 1 ? *known.begin() : described;
}

/// Equal for repetitions of a result.
std::string configuration_key(const Measurement& m) {
  const Configuration& c = m.result->configuration;
  return fmt::format("{}|{}|{}|{}|{}", m.result->source.name, m.label, c.baseline_dtype.value_or(""),
                     fmt::join(c.asked, ","), fmt::join(c.applied, ","));
}

/// The latest of each configuration among those that `has` takes, in the order of the first ones, peers last.
std::vector<const Measurement*> latest_of(const std::vector<const Measurement*>& all, bool (*has)(const Measurement&)) {
  std::vector<const Measurement*> latest;
  std::map<std::string, std::size_t> place;
  for (const Measurement* m : all) {
    if (!has(*m)) continue;
    const auto [found, is_new] = place.try_emplace(configuration_key(*m), latest.size());
    if (is_new)
      latest.push_back(m);
    else
      latest[found->second] = m;
  }
  std::ranges::stable_sort(latest, {}, &Measurement::is_peer);
  return latest;
}

/// Adds precisions to names that would otherwise be equal in a chart.
void tell_precisions_apart(const Scenario& scenario, std::deque<Measurement>& measurements) {
  std::map<std::string, std::set<std::string>> precisions;  // by name
  for (const Measurement* m : scenario.current)
    precisions[m->shown_name()].insert(m->result->configuration.baseline_dtype.value_or(""));
  for (Measurement& m : measurements)
    if (std::ranges::find(scenario.all, &m) != scenario.all.end())
      if (const auto found = precisions.find(m.shown_name()); found != precisions.end() && found->second.size() > 1)
        m.precision = m.result->configuration.baseline_dtype;
}

/// The results of a ladder: see Scenario::run.
std::vector<const Measurement*> run_of(const Scenario& scenario) {
  std::vector<std::vector<const Measurement*>> runs;  // by time
  for (const Measurement* m : scenario.all) {
    if (m->is_peer) continue;
    const auto of_file = [&](const std::vector<const Measurement*>& run) { return run.front()->file == m->file; };
    const auto run = std::ranges::find_if(runs, of_file);
    (run == runs.end() ? runs.emplace_back() : *run).push_back(m);
  }
  const auto baseline_of = [](const std::vector<const Measurement*>& run) {
    const auto baseline = std::ranges::find_if(run, [](const Measurement* m) { return m->is_baseline() && m->timing; });
    return baseline == run.end() ? nullptr : *baseline;
  };
  std::vector<const Measurement*> found;
  for (const std::vector<const Measurement*>& run : runs) {
    const Measurement *const baseline = baseline_of(run), *const before = baseline_of(found);
    if (baseline == nullptr || (before != nullptr && run.size() < found.size())) continue;
    const bool is_of_slower_precision =
        before != nullptr && run.size() == found.size() &&
        baseline->result->configuration.baseline_dtype != before->result->configuration.baseline_dtype &&
        baseline->time().median_ms > before->time().median_ms;
    if (!is_of_slower_precision) found = run;
  }
  std::ranges::copy_if(scenario.current, std::back_inserter(found), &Measurement::is_peer);
  return found;
}

}  // namespace

const std::vector<double>* find_times(const Result& result, std::string_view what) {
  if (result.latency && what == "frame") return &result.latency->latency_ms;
  const TrialSeries* const series = find_series(result, what);
  return series == nullptr ? nullptr : &series->time_ms;
}

bool Measurement::declined(std::string_view switch_name) const {
  const std::vector<DeclinedSwitch>& all = result->configuration.declined;
  return std::ranges::find(all, switch_name, &DeclinedSwitch::name) != all.end();
}

std::string Measurement::shown_name() const {
  return label + (precision ? fmt::format(" ({})", *precision) : "") + declined_mark(*this, switches());
}

std::string declined_mark(const Measurement& measurement, std::span<const std::string> switches) {
  std::vector<std::string_view> declined;
  for (const std::string& name : switches)
    if (measurement.declined(name)) declined.push_back(name);
  constexpr std::size_t kMost = 2;  // chart notes and the measurement table name all of them
  if (declined.empty()) return {};
  if (declined.size() > kMost) return fmt::format(" ({} declined)", declined.size());
  return switches.size() == 1 ? " (declined)" : fmt::format(" ({} declined)", fmt::join(declined, ", "));
}

std::string Measurement::revision() const { return revision_of(*file, *result); }

Dataset Dataset::read(
    std::span<const std::filesystem::path> paths,
    const std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>& progress) {
  const auto tell = [&](std::int64_t done, std::int64_t total) {
    if (progress) progress("reading results", done, total);
  };
  std::vector<NamedResults> files;
  std::vector<std::string> left_out;
  for (const std::filesystem::path& path : paths) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
      files.emplace_back(path.string(), read_measurements(path));
      continue;
    }
    try {
      for (NamedResults& file : read_result_folder(path, left_out, tell)) files.push_back(std::move(file));
    } catch (const Error& error) {  // a file without results; others may have some
      left_out.push_back(printable_name(error.what()));
    }
  }
  if (files.empty() && !left_out.empty()) throw Error(left_out.back());
  Dataset dataset(std::move(files));
  dataset.left_out_ = std::move(left_out);
  return dataset;
}

Dataset::Dataset(std::vector<std::pair<std::string, ResultFile>> files) {
  for (auto& file : files) files_.push_back(std::move(file));
  for (const auto& [path, file] : files_) {
    for (const Result& result : file.results)
      measurements_.push_back({.file = &file,
                               .result = &result,
                               .path = path,
                               .label = label_of(file.machine, result),
                               .timing = timing_of(result),
                               .unsettled = why_unsettled(result),
                               .is_peer = result.source.name != "headroom"});
  }
  if (measurements_.empty()) fail("there are no results to report: the files hold none");

  TokenSizes token_sizes;
  for (const auto& [path, file] : files_) token_sizes.add(file);
  // Models of one name, such as "transformer", are kept apart by their parameters, where these are counted.
  std::map<std::string, std::set<std::int64_t>> models;  // by work
  for (const Measurement& m : measurements_)
    if (const Subject& subject = m.result->subject; subject.parameters)
      models[work_hash(subject)].insert(*subject.parameters);
  std::map<std::string, std::size_t> by_key;
  for (const Measurement& m : measurements_) {
    const std::string hardware = hardware_of(m, files_), hash = work_hash(m.result->subject);
    std::string model;
    if (const std::set<std::int64_t>& counts = models[hash]; counts.size() > 1)
      model = fmt::format("{} parameters", m.result->subject.parameters.value_or(*counts.begin()));
    const auto [found, is_new] = by_key.try_emplace(
        fmt::format("{}|{}|{}|{}", hash, model, m.result->configuration.device, hardware), scenarios_.size());
    if (is_new) {
      Subject subject = m.result->subject;
      subject.token_pixels = token_sizes.of(subject);
      std::string work = describe_work(subject);
      if (!model.empty()) work += ", " + model;
      scenarios_.push_back({.subject = std::move(subject),
                            .work = std::move(work),
                            .hardware = hardware,
                            .model = model,
                            .all = {},
                            .current = {},
                            .profiled = {},
                            .run = {}});
    }
    scenarios_[found->second].all.push_back(&m);
  }
  for (Scenario& scenario : scenarios_) {
    std::ranges::stable_sort(scenario.all, {}, [](const Measurement* m) { return m->file->created; });
    scenario.current = latest_of(scenario.all, [](const Measurement&) { return true; });
    scenario.profiled =
        latest_of(scenario.all, [](const Measurement& m) { return m.result->profile && m.result->plan; });
    scenario.run = run_of(scenario);
    tell_precisions_apart(scenario, measurements_);
  }
  std::ranges::stable_sort(scenarios_, std::ranges::greater{},
                           [](const Scenario& scenario) { return scenario.current.size(); });
}

const Scenario& Dataset::scenario_of(const Measurement& measurement) const {
  const auto found = std::ranges::find_if(scenarios_, [&](const Scenario& scenario) {
    return std::ranges::find(scenario.all, &measurement) != scenario.all.end();
  });
  HR_CHECK(found != scenarios_.end());  // else it belongs to another dataset
  return *found;
}

std::vector<const Scenario*> Dataset::scenarios_of(std::span<const Measurement* const> measurements) const {
  std::vector<const Scenario*> scenarios;
  for (const Measurement* m : measurements)
    if (const Scenario* of = &scenario_of(*m); std::ranges::find(scenarios, of) == scenarios.end())
      scenarios.push_back(of);
  return scenarios;
}

std::optional<Estimate> Dataset::factor(const Measurement& base, const Measurement& other) const {
  const auto [found, is_new] = factors_.try_emplace({&base, &other});
  if (!is_new) return found->second;
  if (base.unsettled || other.unsettled) return {};
  if (base.result == other.result)
    found->second = Estimate{.value = 1, .interval = {}};
  else
    found->second = speedup(*base.result, *other.result, base.file == other.file);
  return found->second;
}

}  // namespace headroom
