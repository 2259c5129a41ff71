// Times of benchmarks that other programs measured: Google Benchmark, nvbench, hyperfine, trtexec.

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/text/format.hpp"
#include "measure/results/import.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

/// The results of one program on one machine, in one unit.
struct BenchmarkSet {
  std::string program, hardware, unit;
  std::vector<const Measurement*> measurements;

  /// Whether a measurement is of the set. One without a time has no unit, and is of the sets that its file is of.
  bool has(const Dataset& dataset, const Measurement& m) const {
    if (!is_imported(*m.result) || m.result->source.name != program || dataset.scenario_of(m).hardware != hardware)
      return false;
    if (m.timing) return m.time().unit == unit;
    return std::ranges::any_of(dataset.measurements(), [&](const Measurement& other) {
      return other.file == m.file && other.timing && other.time().unit == unit;
    });
  }
};

std::vector<BenchmarkSet> benchmark_sets_of(const Dataset& dataset) {
  std::vector<BenchmarkSet> sets;
  for (const Scenario& scenario : dataset.scenarios())
    for (const Measurement* m : scenario.current) {
      if (!is_imported(*m->result) || !m->timing) continue;
      auto set = std::ranges::find_if(sets, [&](const BenchmarkSet& one) { return one.has(dataset, *m); });
      if (set == sets.end()) set = sets.insert(set, {m->result->source.name, scenario.hardware, m->time().unit, {}});
      set->measurements.push_back(m);
    }
  return sets;
}

/// Facts about drawn and undrawable results that the reader needs: tags, each with the results that have it.
std::vector<std::string> notes_on_benchmarks(const Dataset& dataset, const BenchmarkSet& set) {
  std::vector<std::string> notes;
  const auto has_interval = [](const Measurement* m) { return m->time().interval_ms.has_value(); };
  if (std::ranges::any_of(set.measurements, has_interval))
    notes.emplace_back("Whiskers are the 95% interval of the median.");
  if (!std::ranges::all_of(set.measurements, has_interval))
    notes.emplace_back(
        fmt::format("Bars without a whisker are of fewer than {} times in the file.", kFewestForInterval));
  std::map<std::string, std::vector<std::string>> tagged;
  std::int64_t timed = 0;
  for (const Measurement& m : dataset.measurements()) {
    if (!set.has(dataset, m)) continue;
    timed += m.timing ? 1 : 0;
    for (const std::string& tag : m.result->tags)
      if (std::vector<std::string>& labels = tagged[tag]; std::ranges::find(labels, m.label) == labels.end())
        labels.push_back(m.label);
  }
  if (timed > std::ssize(set.measurements))
    notes.push_back(
        fmt::format("Drawn is each benchmark of the last file that has it; {} more are in the table of measurements.",
                    format_count(timed - std::ssize(set.measurements), "measurement")));
  constexpr std::size_t kMostNamed = 8;
  for (const auto& [tag, labels] : tagged) {
    const auto end = labels.begin() + static_cast<std::ptrdiff_t>(std::min(kMostNamed, labels.size()));
    const std::string others =
        labels.size() > kMostNamed ? fmt::format(" and {} others", labels.size() - kMostNamed) : "";
    notes.push_back(fmt::format("{}: {}{}.", tag, fmt::join(labels.begin(), end, ", "), others));
  }
  return notes;
}

std::vector<std::string> labels_of(const std::vector<const Measurement*>& drawn) {
  std::vector<std::string> labels;
  for (const Measurement* m : drawn) labels.push_back(m->label);
  return labels;
}

json draw(const std::vector<const Measurement*>& drawn, const std::string& unit) {
  std::vector<Bar> bars;
  for (const Measurement* m : drawn) {
    Tip tip(m->label);
    tip.timing(*m);
    bars.push_back({.name = m->label,
                    .value = m->time().median_ms,
                    .interval = m->time().interval_ms,
                    .text = label_ms(m->time().median_ms),
                    .tip = tip.json()});
  }
  return horizontal_bars(bars, fmt::format("time per {}", unit), "axis_ms");
}

}  // namespace

Drawn benchmark_times(const Dataset& dataset) {
  constexpr std::size_t kMostBars = 60;
  Drawn drawn{.charts = {}, .left_out = "no file of Google Benchmark, nvbench, hyperfine or trtexec was given"};
  for (BenchmarkSet& set : benchmark_sets_of(dataset)) {
    const std::size_t count = std::min(kMostBars, set.measurements.size());
    const std::vector<const Measurement*> shown(set.measurements.begin(),
                                                set.measurements.begin() + static_cast<std::ptrdiff_t>(count));
    Chart chart{.file = numbered("benchmark_times", drawn.charts.size()),
                .title = fmt::format("Time per {} of each benchmark", set.unit),
                .subtitle = fmt::format("measured by {}; {}", set.program, set.hardware),
                .of = dataset.scenarios_of(set.measurements),
                .option = draw(shown, set.unit),
                .notes = notes_on_benchmarks(dataset, set),
                .height = height_of_bars(labels_of(shown)),
                .variant = fmt::format("{} {}", set.program, set.unit)};
    if (const std::size_t more = set.measurements.size() - shown.size(); more > 0)
      chart.notes.push_back(fmt::format("{} more are in the table of measurements.",
                                        format_count(static_cast<std::int64_t>(more), "benchmark")));
    drawn.charts.push_back(std::move(chart));
  }
  return drawn;
}

}  // namespace headroom::charts
