#include "measure/results/export.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "measure/suites/benchmark_names.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

std::size_t processes_of(const TrialSeries& series) {
  return std::set<std::int64_t>(series.process.begin(), series.process.end()).size();
}

std::vector<Column> summary_columns() {
  const auto in_csv = [](const char* field) { return Column{.header = field, .shown = Shown::kOnlyInCsv}; };
  return {{.header = "benchmark", .align = Align::kLeft, .least = 24},
          {.header = "series", .align = Align::kLeft},
          in_csv("source"),
          in_csv("device"),
          {.header = "n", .priority = 1},
          {.header = "processes", .priority = 2},
          {.header = "median", .fields = {"median_ms"}},
          {.header = "95% interval", .fields = {"ci_low_ms", "ci_high_ms"}},
          {.header = "quartiles", .priority = 3, .fields = {"q1_ms", "q3_ms"}},
          in_csv("mean_ms"),
          in_csv("stddev_ms"),
          in_csv("min_ms"),
          in_csv("max_ms"),
          in_csv("p95_ms"),
          {.header = "p99", .fields = {"p99_ms"}},
          in_csv("outliers_mild"),
          in_csv("outliers_severe")};
}

std::vector<Cell> summary_cells(const std::string& benchmark, const Result& result, const TrialSeries& series) {
  const Summary& s = series.statistics;
  return {benchmark,
          series.what,
          result.source.name,
          result.configuration.device,
          count_cell(static_cast<std::int64_t>(s.n)),
          count_cell(static_cast<std::int64_t>(processes_of(series))),
          ms_cell(s.median),
          interval_ms_cell(s.median_interval),
          interval_ms_cell(Interval{s.q1, s.q3}),
          ms_cell(s.mean),
          ms_cell(s.stddev),
          ms_cell(s.min),
          ms_cell(s.max),
          ms_cell(s.p95),
          ms_cell(s.p99),
          count_cell(static_cast<std::int64_t>(s.outliers_mild)),
          count_cell(static_cast<std::int64_t>(s.outliers_severe))};
}

nlohmann::json google_entry(const std::string& name, double ms, std::size_t repetitions) {
  return {{"name", name},      {"run_name", name},  {"repetitions", repetitions},
          {"iterations", 1},   {"real_time", ms},   {"cpu_time", ms},
          {"time_unit", "ms"}, {"family_index", 0}, {"per_family_instance_index", 0}};
}

/// `threads` are the threads available to kernels; left out if the result does not state them.
void append_google_series(nlohmann::json& benchmarks, const std::string& name, const TrialSeries& series,
                          std::optional<std::int64_t> threads, std::size_t family) {
  const std::size_t repetitions = series.time_ms.size();
  const auto add = [&](nlohmann::json entry) -> nlohmann::json& {
    entry["family_index"] = family;
    if (threads) entry["threads"] = *threads;
    return benchmarks.emplace_back(std::move(entry));
  };
  for (std::size_t i = 0; i < repetitions; ++i) {
    nlohmann::json& entry = add(google_entry(name, series.time_ms[i], repetitions));
    entry["run_type"] = "iteration";
    entry["repetition_index"] = i;
  }
  const auto aggregate = [&](const char* which, double value, const char* unit) {
    nlohmann::json entry = google_entry(name, value, repetitions);
    entry["name"] = name + "_" + which;
    entry["run_type"] = "aggregate";
    entry["aggregate_name"] = which;
    entry["aggregate_unit"] = unit;
    entry["iterations"] = repetitions;
    add(std::move(entry));
  };
  const Summary& statistics = series.statistics;
  aggregate("mean", statistics.mean, "time");
  aggregate("median", statistics.median, "time");
  if (!statistics.stddev) return;
  aggregate("stddev", *statistics.stddev, "time");
  if (statistics.mean > 0) aggregate("cv", *statistics.stddev / statistics.mean, "percentage");
}

}  // namespace

Printout to_summary_table(const ResultFile& file) {
  Table table;
  for (Column& column : summary_columns()) table.add_column(std::move(column));
  BenchmarkNames names;
  names.add(file);
  for (const Result& result : file.results)
    for (const TrialSeries& series : result.trials)
      table.add_row(summary_cells(names.of(file.machine, result), result, series));
  return table;
}

nlohmann::json to_google_benchmark(const ResultFile& file) {
  nlohmann::json context = {{"date", file.created},
                            {"executable", "headroom"},
                            {"num_cpus", file.machine.logical_cores},
                            {"caches", nlohmann::json::array()},
                            {"library_build_type", "release"}};
  if (file.machine.cpu_max_mhz) context["mhz_per_cpu"] = *file.machine.cpu_max_mhz;
  if (file.machine.build && !file.machine.build->optimized) context["library_build_type"] = "debug";
  nlohmann::json benchmarks = nlohmann::json::array();
  std::size_t family = 0;
  BenchmarkNames names;
  names.add(file);
  for (const Result& result : file.results)
    for (const TrialSeries& series : result.trials)
      append_google_series(benchmarks, fmt::format("{}/{}", names.of(file.machine, result), series.what), series,
                           result.configuration.threads, family++);
  return {{"context", std::move(context)}, {"benchmarks", std::move(benchmarks)}};
}

}  // namespace headroom
