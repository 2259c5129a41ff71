#include "measure/export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/markdown.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

std::string benchmark_of(const Result& result) {
  return result.subject.kind == SubjectKind::kKernel ? result.name
                                                     : fmt::format("{} {}", result.subject.name, result.name);
}

std::size_t processes_of(const TrialSeries& series) {
  return std::set<std::int64_t>(series.process.begin(), series.process.end()).size();
}

const std::vector<std::string> kSummaryColumns = {"benchmark", "series",       "n",         "processes",
                                                  "median",    "95% interval", "quartiles", "p99"};

std::vector<std::string> summary_cells(const Result& result, const TrialSeries& series) {
  const Summary& statistics = series.statistics;
  return {benchmark_of(result),
          series.what,
          fmt::format("{}", statistics.n),
          fmt::format("{}", processes_of(series)),
          format_ms(statistics.median),
          statistics.median_interval ? format_interval_ms(*statistics.median_interval) : "-",
          format_interval_ms({statistics.q1, statistics.q3}),
          format_ms(statistics.p99)};
}

/// A field of RFC 4180: in quotes where it holds a comma, a quote or a line break.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string number(double value) { return fmt::format("{}", value); }
template <typename T>
std::string number(const std::optional<T>& value) {
  return value ? number(*value) : "";
}

nlohmann::json google_entry(const std::string& name, double ms, std::size_t repetitions) {
  return {{"name", name},      {"run_name", name},  {"repetitions", repetitions},
          {"iterations", 1},   {"real_time", ms},   {"cpu_time", ms},
          {"time_unit", "ms"}, {"family_index", 0}, {"per_family_instance_index", 0}};
}

/// `threads` are those that the kernels could use; left out where the result does not know them.
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

std::string to_summary_table(const ResultFile& file) {
  Table table;
  for (const std::string& column : kSummaryColumns)
    table.add_column(column, column == "benchmark" || column == "series" ? Align::kLeft : Align::kRight);
  for (const Result& result : file.results)
    for (const TrialSeries& series : result.trials) table.add_row(summary_cells(result, series));
  return table.render();
}

std::string to_markdown(const ResultFile& file) {
  std::string text =
      fmt::format("| {} |\n|---|---|{}\n", fmt::join(kSummaryColumns, " | "), "--:|--:|--:|--:|--:|--:|");
  for (const Result& result : file.results)
    for (const TrialSeries& series : result.trials) {
      std::vector<std::string> cells = summary_cells(result, series);
      for (std::size_t i = 0; i < 2; ++i) cells[i] = markdown_text(cells[i]);  // names; what follows are numbers
      text += fmt::format("| {} |\n", fmt::join(cells, " | "));
    }
  return text;
}

std::string to_csv(const ResultFile& file) {
  std::string text =
      "benchmark,series,source,device,n,processes,median_ms,ci_low_ms,ci_high_ms,q1_ms,q3_ms,mean_ms,stddev_ms,min_ms,"
      "max_ms,p95_ms,p99_ms,outliers_mild,outliers_severe\n";
  for (const Result& result : file.results)
    for (const TrialSeries& series : result.trials) {
      const Summary& s = series.statistics;
      const auto& interval = s.median_interval;
      const std::vector<std::string> fields = {csv_field(benchmark_of(result)),
                                               csv_field(series.what),
                                               csv_field(result.source.name),
                                               csv_field(result.configuration.device),
                                               fmt::format("{}", s.n),
                                               fmt::format("{}", processes_of(series)),
                                               number(s.median),
                                               interval ? number(interval->low) : "",
                                               interval ? number(interval->high) : "",
                                               number(s.q1),
                                               number(s.q3),
                                               number(s.mean),
                                               number(s.stddev),
                                               number(s.min),
                                               number(s.max),
                                               number(s.p95),
                                               number(s.p99),
                                               fmt::format("{}", s.outliers_mild),
                                               fmt::format("{}", s.outliers_severe)};
      text += fmt::format("{}\n", fmt::join(fields, ","));
    }
  return text;
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
  for (const Result& result : file.results)
    for (const TrialSeries& series : result.trials)
      append_google_series(benchmarks, fmt::format("{}/{}", benchmark_of(result), series.what), series,
                           result.configuration.threads, family++);
  return {{"context", std::move(context)}, {"benchmarks", std::move(benchmarks)}};
}

}  // namespace headroom
