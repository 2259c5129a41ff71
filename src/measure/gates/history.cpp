#include "measure/gates/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "measure/probes/hardware.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/suites/benchmark_names.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

std::string change_text(double ratio) { return fmt::format("{:+.1f}%", 100 * (ratio - 1)); }

std::int64_t runs_of(const BenchmarkHistory& history) {
  std::int64_t runs = 0;
  for (const HistoryPoint& point : history.points) runs += point.runs;
  return runs;
}

std::vector<Column> summary_columns_of_history(bool is_one_machine) {
  std::vector<Column> columns = {{.header = "benchmark", .align = Align::kLeft, .least = 24}};
  if (!is_one_machine) columns.push_back({.header = "machine", .align = Align::kLeft});
  columns.push_back({.header = "revisions"});
  columns.push_back({.header = "runs", .priority = 3});
  columns.push_back({.header = "first", .priority = 2, .fields = {"first_ms"}});
  columns.push_back({.header = "last", .priority = 1, .fields = {"last_ms"}});
  columns.push_back({.header = "last/first", .fields = {"ratio"}});
  columns.push_back({.header = "steps"});
  return columns;
}

std::vector<Cell> summary_cells_of_history(const BenchmarkHistory& history, bool is_one_machine) {
  const double first = history.points.front().median_ms, last = history.points.back().median_ms;
  std::vector<Cell> cells = {history.name};
  if (!is_one_machine) cells.emplace_back(history.machine);
  cells.insert(cells.end(),
               {count_cell(std::ssize(history.points)), count_cell(runs_of(history)), ms_cell(first), ms_cell(last),
                number_cell(last / first, fmt::format("{:.3f}", last / first)), count_cell(std::ssize(history.steps))});
  return cells;
}

Table summary_table(const std::vector<BenchmarkHistory>& histories, bool is_one_machine) {
  Table table;
  for (Column& column : summary_columns_of_history(is_one_machine)) table.add_column(std::move(column));
  for (const BenchmarkHistory& history : histories) table.add_row(summary_cells_of_history(history, is_one_machine));
  return table;
}

std::vector<Column> step_columns() {
  return {{.header = "before", .priority = 1, .fields = {"step_before_ms"}},
          {.header = "after", .priority = 2, .fields = {"step_after_ms"}},
          {.header = "change", .fields = {"step_ratio"}},
          {.header = "p", .priority = 3, .fields = {"step_p"}},
          {.header = "after revision", .align = Align::kLeft, .least = 12},
          {.header = "by revision", .align = Align::kLeft, .least = 12},
          {.header = "measured at", .align = Align::kLeft, .priority = 4, .fields = {"measured_at"}}};
}

std::vector<Cell> step_cells(const BenchmarkHistory& history, const ChangePoint& step) {
  const HistoryPoint& at = history.points[step.index];
  const double ratio = step.after / step.before;
  return {ms_cell(step.before),
          ms_cell(step.after),
          number_cell(ratio, change_text(ratio)),
          number_cell(step.p, format_p(step.p)),
          history.points[step.index - 1].revision,
          at.revision,
          at.created};
}

Table step_table(const std::vector<BenchmarkHistory>& histories) {
  Table table;
  table.add_column(Column{.header = "step of", .align = Align::kLeft, .least = 24});
  for (Column& column : step_columns()) table.add_column(std::move(column));
  for (const BenchmarkHistory& history : histories)
    for (const ChangePoint& step : history.steps) {
      std::vector<Cell> cells = {history.name};
      for (Cell& cell : step_cells(history, step)) cells.push_back(std::move(cell));
      table.add_row(std::move(cells));
    }
  return table;
}

/// One row for each step of a history, or one row if it has no steps, with its machine.
Table joined_table(const std::vector<BenchmarkHistory>& histories) {
  Table table;
  for (Column& column : summary_columns_of_history(/*is_one_machine=*/false)) table.add_column(std::move(column));
  const std::vector<Column> of_steps = step_columns();
  for (const Column& column : of_steps) table.add_column(column);
  for (const BenchmarkHistory& history : histories) {
    const std::vector<Cell> summary = summary_cells_of_history(history, /*is_one_machine=*/false);
    const auto add = [&](std::vector<Cell> step) {
      std::vector<Cell> cells = summary;
      step.resize(of_steps.size(), no_value());
      for (Cell& cell : step) cells.push_back(std::move(cell));
      table.add_row(std::move(cells));
    };
    if (history.steps.empty()) add({});
    for (const ChangePoint& step : history.steps) add(step_cells(history, step));
  }
  return table;
}

}  // namespace

std::string revision_of(const ResultFile& file, const Result& result) {
  if (result.source.name != "headroom") return result.source.version;
  return file.machine.build ? file.machine.build->git_revision : "unknown";
}

std::vector<HistoryPoint> merge_revisions(std::span<const HistoryPoint> runs) {
  std::vector<HistoryPoint> points;
  std::map<std::string, std::vector<double>> medians_ms;
  for (const HistoryPoint& run : runs) {
    std::vector<double>& of_revision = medians_ms[run.revision];
    if (of_revision.empty()) points.push_back(run);
    of_revision.push_back(run.median_ms);
  }
  for (HistoryPoint& point : points) {
    point.median_ms = median(medians_ms.at(point.revision));
    point.runs = std::ssize(medians_ms.at(point.revision));
  }
  return points;
}

std::vector<ChangePoint> find_time_steps(std::span<const HistoryPoint> points, const ChangePointOptions& options) {
  std::vector<double> medians_ms, logs;
  for (const HistoryPoint& point : points) {
    medians_ms.push_back(point.median_ms);
    logs.push_back(std::log(point.median_ms));
  }
  std::vector<ChangePoint> steps = find_change_points(logs, options);
  const std::span<const double> all(medians_ms);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t at = steps[i].index, end = i + 1 < steps.size() ? steps[i + 1].index : all.size();
    steps[i].before = median(all.subspan(begin, at - begin));
    steps[i].after = median(all.subspan(at, end - at));
    begin = at;
  }
  return steps;
}

std::vector<BenchmarkHistory> make_histories(std::vector<ResultFile> files, const ChangePointOptions& options) {
  std::ranges::stable_sort(files, {}, &ResultFile::created);
  BenchmarkNames names;
  for (const ResultFile& file : files) names.add(file);
  std::map<std::tuple<std::string, std::string, std::string>, BenchmarkHistory> by_key;
  for (const ResultFile& file : files)
    for (const Result& result : file.results) {
      if (result.trials.empty()) continue;
      const TrialSeries& series = result.trials.front();
      std::string name = fmt::format("{}, {}", names.of(file.machine, result), series.what);
      const std::string dtype = result.configuration.baseline_dtype.value_or("f32");
      if (dtype != "f32") name += fmt::format(", {} baseline", dtype);
      const std::string machine = describe_hardware(file.machine, result.configuration);
      BenchmarkHistory& history = by_key[{name, machine, work_hash(result.subject)}];
      history.name = name;
      history.machine = machine;
      history.points.push_back(
          {.created = file.created, .revision = revision_of(file, result), .median_ms = series.statistics.median});
    }
  std::vector<BenchmarkHistory> histories;
  for (auto& [key, history] : by_key) {
    history.points = merge_revisions(history.points);
    history.steps = find_time_steps(history.points, options);
    histories.push_back(std::move(history));
  }
  return histories;
}

Printout to_table(const std::vector<BenchmarkHistory>& histories) {
  Printout printout;
  const bool is_one_machine =
      std::ranges::all_of(histories, [&](const BenchmarkHistory& one) { return one.machine == histories[0].machine; });
  if (is_one_machine && !histories.empty()) printout.add(fmt::format("machine: {}\n\n", histories[0].machine));
  if (!histories.empty()) printout.add(summary_table(histories, is_one_machine));
  if (Table steps = step_table(histories); steps.is_empty()) {
    std::size_t longest = 1;  // benchmarks of one revision are no history
    for (const BenchmarkHistory& one : histories) longest = std::max(longest, one.points.size());
    const char* const gap = histories.empty() ? "" : "\n";
    printout.add(longest < kFewestForChangePoint
                     ? fmt::format("{}no step found: that takes {} revisions, and the longest history has {}\n", gap,
                                   kFewestForChangePoint, longest)
                     : fmt::format("{}no step found\n", gap));
  } else {
    printout.add("\n");
    printout.add(std::move(steps));
  }
  printout.set_csv(joined_table(histories));
  return printout;
}

nlohmann::json to_json(const std::vector<BenchmarkHistory>& histories) {
  nlohmann::json json = {{"schema", "headroom.history/1"}, {"histories", nlohmann::json::array()}};
  for (const BenchmarkHistory& history : histories) {
    nlohmann::json points = nlohmann::json::array(), steps = nlohmann::json::array();
    for (const HistoryPoint& point : history.points)
      points.push_back({{"created", point.created},
                        {"revision", point.revision},
                        {"median_ms", point.median_ms},
                        {"runs", point.runs}});
    for (const ChangePoint& step : history.steps)
      steps.push_back({{"index", step.index}, {"before_ms", step.before}, {"after_ms", step.after}, {"p", step.p}});
    json["histories"].push_back({{"name", history.name},
                                 {"machine", history.machine},
                                 {"points", std::move(points)},
                                 {"steps", std::move(steps)}});
  }
  return json;
}

}  // namespace headroom
