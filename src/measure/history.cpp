#include "measure/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "measure/benchmark_names.hpp"
#include "measure/hardware.hpp"
#include "measure/statistics.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

std::string percent(double ratio) { return fmt::format("{:+.1f}%", 100 * (ratio - 1)); }

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
      std::string name = fmt::format("{}, {}", names.of(result), series.what);
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

std::string to_table(const std::vector<BenchmarkHistory>& histories) {
  Table summary;
  summary.add_column("benchmark", Align::kLeft);
  summary.add_column("machine", Align::kLeft);
  for (const char* header : {"revisions", "runs", "first", "last", "last/first", "steps"}) summary.add_column(header);
  Table steps;
  steps.add_column("step of", Align::kLeft);
  for (const char* header : {"before", "after", "change", "p"}) steps.add_column(header);
  steps.add_column("after revision", Align::kLeft);
  steps.add_column("by revision", Align::kLeft);
  steps.add_column("measured at", Align::kLeft);
  bool any = false;
  for (const BenchmarkHistory& history : histories) {
    const double first = history.points.front().median_ms, last = history.points.back().median_ms;
    std::int64_t runs = 0;
    for (const HistoryPoint& point : history.points) runs += point.runs;
    summary.add_row({history.name, history.machine, fmt::format("{}", history.points.size()), fmt::format("{}", runs),
                     format_ms(first), format_ms(last), fmt::format("{:.3f}", last / first),
                     fmt::format("{}", history.steps.size())});
    for (const ChangePoint& step : history.steps) {
      any = true;
      const HistoryPoint& at = history.points[step.index];
      steps.add_row({history.name, format_ms(step.before), format_ms(step.after), percent(step.after / step.before),
                     fmt::format("{:.3f}", step.p), history.points[step.index - 1].revision, at.revision, at.created});
    }
  }
  return summary.render() + (any ? "\n" + steps.render() : "\nno steps\n");
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
