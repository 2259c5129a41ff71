#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "measure/probes/floor.hpp"
#include "measure/results/timing.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/suites/kernel_suite.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

/// A launch or copy and its time.
struct Rate {
  const PlanRecord* plan = nullptr;  ///< null for the copy
  double copied_bytes = 0;           ///< for the copy: read and written
  double median_ms = 0;
  [[nodiscard]] const PlannedNode& node() const { return plan->nodes.front(); }
  [[nodiscard]] bool is_one_launch() const { return plan == nullptr || plan->nodes.size() == 1; }
  [[nodiscard]] bool is_contraction() const {
    return plan != nullptr &&
           std::ranges::any_of(plan->nodes, [](const PlannedNode& node) { return node.cost_unit == "matrix"; });
  }
  /// Several launches move more bytes than the work needs.
  [[nodiscard]] bool moves_the_least() const { return is_one_launch() && !is_contraction(); }
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

/// Null if launches were not timed with cold caches.
const TrialSeries* find_cold(const Result& result) { return find_series(result, "cold"); }

/// The ratio of a case's time to its floor. With several rounds it is the median over rounds of each
/// round's ratio.
double over_floor(const Result& result) {
  const TrialSeries& launches = series_of(result, "launch");
  const TrialSeries* const floors = find_series(result, "floor");
  if (floors == nullptr) return launches.statistics.median / result.floor->ms;
  const auto by_round = [](const TrialSeries& series) {
    std::map<std::int64_t, std::vector<double>> rounds;
    for (std::size_t i = 0; i < series.time_ms.size(); ++i) rounds[series.process[i]].push_back(series.time_ms[i]);
    return rounds;
  };
  auto floor_of_round = by_round(*floors);
  std::vector<double> times;
  for (const auto& [round, launch] : by_round(launches))
    times.push_back(median(launch) / median(floor_of_round.at(round)));
  return median(times);
}

}  // namespace

Printout to_kernel_table(const ResultFile& file) {
  Table table;
  table.add_column(Column{.header = "kernel benchmark", .align = Align::kLeft, .least = 24});
  table.add_column(Column{.header = "runs as", .align = Align::kLeft, .priority = 2, .least = 24});
  table.add_column(Column{.header = "a launch", .fields = {"launch_ms"}});
  table.add_column(Column{.header = "95% interval", .priority = 3, .fields = {"launch_low_ms", "launch_high_ms"}});
  table.add_column(Column{.header = "GFLOP/s", .fields = {"gflop_per_s"}});
  table.add_column(Column{.header = "GB/s", .fields = {"gb_per_s"}});
  table.add_column(Column{.header = "floor", .priority = 4, .fields = {"floor_ms"}});
  table.add_column(Column{.header = "of", .priority = 5, .fields = {"floor_of"}});
  table.add_column(Column{.header = "over it", .fields = {"times_floor"}});
  const bool has_cold =
      std::ranges::any_of(file.results, [](const Result& result) { return find_cold(result) != nullptr; });
  if (has_cold) table.add_column(Column{.header = "cold", .priority = 1, .fields = {"cold_ms"}});
  std::int64_t below = 0;
  for (const Result& result : file.results) {
    const Rate rate = rate_of(file, result);
    const auto rate_cell = [](bool has, double value) {
      return has ? number_cell(value, format_significant(value)) : no_value();
    };
    std::vector<Cell> cells = {result.name,
                               rate.kernels(),
                               ms_cell(rate.median_ms),
                               interval_ms_cell(series_of(result, "launch").statistics.median_interval),
                               rate_cell(rate.is_contraction(), rate.is_contraction() ? rate.gflops() : 0),
                               rate_cell(rate.moves_the_least(), rate.moves_the_least() ? rate.gigabytes() : 0)};
    if (const std::optional<FloorRecord>& floor = result.floor) {
      const double over = over_floor(result);
      below += is_below_floor(over) ? 1 : 0;
      cells.insert(cells.end(), {ms_cell(floor->ms), Cell(floor->of), over_floor_cell(over)});
    } else {
      cells.insert(cells.end(), {no_value(), no_value(), no_value()});
    }
    if (has_cold) {
      const TrialSeries* cold = find_cold(result);
      cells.push_back(ms_cell(cold == nullptr ? std::nullopt : std::optional(cold->statistics.median)));
    }
    table.add_row(std::move(cells));
  }
  Printout printout(std::move(table));
  printout.add(remark_on_few_trials(file.results, "launch", ""));
  printout.add(
      "\nfloors: a copy of the bytes that must move, FLOPs at the rate of the fastest product or, on a CPU, "
      "exponentials, whichever takes longest\n");
  const std::string disturbed = remark_on_unsettled(file.results);
  printout.add(disturbed);
  printout.add(remark_on_rows_below_floor(below, !disturbed.empty()));
  return printout;
}

}  // namespace headroom
