#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "measure/kernel_suite.hpp"
#include "measure/statistics.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

/// What ran and how long it took.
struct Rate {
  const PlanRecord* plan = nullptr;  ///< null for the copy
  double copied_bytes = 0;           ///< of the copy: read and written
  double median_ms = 0;
  [[nodiscard]] const PlannedNode& node() const { return plan->nodes.front(); }
  [[nodiscard]] bool is_one_launch() const { return plan == nullptr || plan->nodes.size() == 1; }
  [[nodiscard]] bool is_product() const {
    return plan != nullptr &&
           std::ranges::any_of(plan->nodes, [](const PlannedNode& node) { return node.cost_unit == "matrix"; });
  }
  /// Several launches move more bytes than the work needs.
  [[nodiscard]] bool moves_the_least() const { return is_one_launch() && !is_product(); }
  [[nodiscard]] double gigabytes() const {
    return (plan == nullptr ? copied_bytes : node().cost_bytes) / median_ms * 1e-6;
  }
  [[nodiscard]] double gflops() const {
    double flops = 0;
    for (const PlannedNode& each : plan->nodes) flops += each.cost_flops;
    return flops / median_ms * 1e-6;
  }
  [[nodiscard]] std::string kernels() const {
    if (plan == nullptr) return "memcpy";
    if (is_one_launch()) return fmt::format("{} ({})", node().kernel, node().implementation);
    std::vector<std::string_view> names;
    for (const PlannedNode& each : plan->nodes) names.push_back(each.kernel);
    return fmt::format("{}", fmt::join(names, " + "));
  }
};

Rate rate_of(const ResultFile& file, const Result& result) {
  Rate rate{.median_ms = series_of(result, "launch").statistics.median};
  if (result.plan)
    rate.plan = &file.plans.at(*result.plan);
  else
    rate.copied_bytes = 2 * result.subject.request.at("bytes").get<double>();
  return rate;
}

/// Null where launches were not timed with cold caches.
const TrialSeries* find_cold(const Result& result) {
  const auto found = std::ranges::find(result.trials, "cold", &TrialSeries::what);
  return found == result.trials.end() ? nullptr : &*found;
}

/// How many times its floor a case takes: where both took turns, the median over turns of each turn's own.
double over_floor(const Result& result) {
  const TrialSeries& launches = series_of(result, "launch");
  const auto floors = std::ranges::find(result.trials, "floor", &TrialSeries::what);
  if (floors == result.trials.end()) return launches.statistics.median / result.floor->ms;
  const auto by_turn = [](const TrialSeries& series) {
    std::map<std::int64_t, std::vector<double>> turns;
    for (std::size_t i = 0; i < series.time_ms.size(); ++i) turns[series.process[i]].push_back(series.time_ms[i]);
    return turns;
  };
  auto floor_of_turn = by_turn(*floors);
  std::vector<double> times;
  for (const auto& [turn, launch] : by_turn(launches)) times.push_back(median(launch) / median(floor_of_turn.at(turn)));
  return median(times);
}

}  // namespace

std::string to_kernel_table(const ResultFile& file) {
  Table table;
  table.add_column("kernel benchmark", Align::kLeft);
  table.add_column("runs as", Align::kLeft);
  for (const char* header : {"a launch", "95% interval", "GFLOP/s", "GB/s", "floor", "of", "over it"})
    table.add_column(header);
  const bool has_cold =
      std::ranges::any_of(file.results, [](const Result& result) { return find_cold(result) != nullptr; });
  if (has_cold) table.add_column("cold");
  for (const Result& result : file.results) {
    const Rate rate = rate_of(file, result);
    const Summary& statistics = series_of(result, "launch").statistics;
    std::vector<std::string> cells = {
        result.name, rate.kernels(), format_ms(rate.median_ms),
        statistics.median_interval ? format_interval_ms(*statistics.median_interval) : "-"};
    cells.push_back(rate.is_product() ? format_significant(rate.gflops()) : "-");
    cells.push_back(rate.moves_the_least() ? format_significant(rate.gigabytes()) : "-");
    if (const std::optional<FloorRecord>& floor = result.floor)
      cells.insert(cells.end(), {format_ms(floor->ms), floor->of, format_factor(over_floor(result))});
    else
      cells.insert(cells.end(), {"-", "-", "-"});
    if (has_cold) {
      const TrialSeries* cold = find_cold(result);
      cells.push_back(cold == nullptr ? "-" : format_ms(cold->statistics.median));
    }
    table.add_row(std::move(cells));
  }
  return table.render() +
         "\nfloors: a copy of the bytes that must move, FLOPs at the rate of the fastest product or, on a CPU, "
         "exponentials, whichever takes longest\n";
}

}  // namespace headroom
