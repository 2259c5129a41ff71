#include "measure/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "measure/benchmark_names.hpp"
#include "measure/hardware.hpp"
#include "measure/statistics.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

std::string revision_of(const ResultFile& file) {
  return file.machine.build ? file.machine.build->git_revision : "unknown";
}

std::string percent(double ratio) { return fmt::format("{:+.1f}%", 100 * (ratio - 1)); }

}  // namespace

std::vector<ChangePoint> find_time_steps(std::span<const double> medians_ms, const ChangePointOptions& options) {
  std::vector<double> logs(medians_ms.size());
  std::ranges::transform(medians_ms, logs.begin(), [](double ms) { return std::log(ms); });
  std::vector<ChangePoint> steps = find_change_points(logs, options);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t at = steps[i].index, end = i + 1 < steps.size() ? steps[i + 1].index : medians_ms.size();
    steps[i].before = median(medians_ms.subspan(begin, at - begin));
    steps[i].after = median(medians_ms.subspan(at, end - at));
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
      if (result.trials.empty() || result.trials.front().statistics.median <= 0) continue;
      const std::string name = fmt::format("{}, {}", names.of(result), result.trials.front().what);
      const std::string machine = describe_hardware(file.machine, result.configuration);
      BenchmarkHistory& history = by_key[{name, machine, work_hash(result.subject)}];
      history.name = name;
      history.machine = machine;
      history.points.push_back({.created = file.created,
                                .revision = revision_of(file),
                                .median_ms = result.trials.front().statistics.median});
    }
  std::vector<BenchmarkHistory> histories;
  for (auto& [key, history] : by_key) {
    std::vector<double> medians_ms;
    for (const HistoryPoint& point : history.points) medians_ms.push_back(point.median_ms);
    history.steps = find_time_steps(medians_ms, options);
    histories.push_back(std::move(history));
  }
  return histories;
}

std::vector<ResultFile> read_history(const fs::path& folder, std::vector<std::string>& skipped) {
  if (!fs::is_directory(folder)) fail("{} is no folder", folder.string());
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".json") paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<ResultFile> files;
  for (const fs::path& path : paths) try {
      files.push_back(read_results(path));
    } catch (const Error& error) {
      skipped.emplace_back(error.what());
    }
  if (files.empty()) fail("{} holds no result file (*.json)", folder.string());
  return files;
}

std::string to_table(const std::vector<BenchmarkHistory>& histories) {
  Table summary;
  summary.add_column("benchmark", Align::kLeft);
  summary.add_column("machine", Align::kLeft);
  for (const char* header : {"points", "first", "last", "last/first", "steps"}) summary.add_column(header);
  Table steps;
  steps.add_column("step of", Align::kLeft);
  for (const char* header : {"before", "after", "change", "p"}) steps.add_column(header);
  steps.add_column("after revision", Align::kLeft);
  steps.add_column("by revision", Align::kLeft);
  steps.add_column("measured at", Align::kLeft);
  bool any = false;
  for (const BenchmarkHistory& history : histories) {
    const double first = history.points.front().median_ms, last = history.points.back().median_ms;
    summary.add_row({history.name, history.machine, fmt::format("{}", history.points.size()), format_ms(first),
                     format_ms(last), fmt::format("{:.3f}", last / first), fmt::format("{}", history.steps.size())});
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
      points.push_back({{"created", point.created}, {"revision", point.revision}, {"median_ms", point.median_ms}});
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
