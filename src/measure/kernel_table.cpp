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
  double median_ms = 0;
  [[nodiscard]] const PlannedNode& node() const { return plan->nodes.front(); }
  [[nodiscard]] bool is_one_launch() const { return plan->nodes.size() == 1; }
  [[nodiscard]] bool is_product() const {
    return std::ranges::any_of(plan->nodes, [](const PlannedNode& node) { return node.cost_unit == "matrix"; });
  }
  /// Of what is not a product, only as long as it is one launch: several move more bytes than the work needs.
  [[nodiscard]] double gigabytes() const { return node().cost_bytes / median_ms * 1e-6; }
  [[nodiscard]] double flops() const {
    double flops = 0;
    for (const PlannedNode& node : plan->nodes) flops += node.cost_flops;
    return flops;
  }
  [[nodiscard]] double gflops() const { return flops() / median_ms * 1e-6; }
  [[nodiscard]] std::string kernels() const {
    if (plan == nullptr) return "memcpy";
    if (is_one_launch()) return fmt::format("{} ({})", node().kernel, node().implementation);
    std::vector<std::string_view> names;
    for (const PlannedNode& node : plan->nodes) names.push_back(node.kernel);
    return fmt::format("{}", fmt::join(names, " + "));
  }
};

Rate rate_of(const ResultFile& file, const Result& result) {
  Rate rate{.plan = nullptr, .median_ms = series_of(result, "launch").statistics.median};
  if (result.plan) rate.plan = &file.plans.at(*result.plan);
  return rate;
}

/// Read and written.
double copied_bytes(const Result& copy) { return 2.0 * copy.subject.request.at("bytes").get<double>(); }

/// Null where launches were not timed with cold caches.
const TrialSeries* find_cold(const Result& result) {
  const auto found = std::ranges::find(result.trials, "cold", &TrialSeries::what);
  return found == result.trials.end() ? nullptr : &*found;
}

/// Of a case that took turns with a yardstick, the median over turns of how many times longer the yardstick took.
std::optional<double> times_of_yardstick(const Result& result) {
  const auto found = std::ranges::find(result.trials, "yardstick", &TrialSeries::what);
  if (found == result.trials.end()) return std::nullopt;
  const auto by_turn = [](const TrialSeries& series) {
    std::map<std::int64_t, std::vector<double>> turns;
    for (std::size_t i = 0; i < series.time_ms.size(); ++i) turns[series.process[i]].push_back(series.time_ms[i]);
    return turns;
  };
  const auto launches = by_turn(series_of(result, "launch"));
  std::vector<double> times;
  for (const auto& [turn, yardstick] : by_turn(*found))
    if (const auto launch = launches.find(turn); launch != launches.end())
      times.push_back(median(yardstick) / median(launch->second));
  if (times.empty()) return std::nullopt;
  return median(times);
}

/// What a launch of the yardstick of such a case does, in FLOPs or bytes; 0 where the file does not hold it.
double work_of_yardstick(const ResultFile& file, const Result& result) {
  for (const std::string& tag : result.tags)
    if (tag.starts_with(kYardstickTag))
      for (const Result& other : file.results) {
        if (other.name != tag.substr(kYardstickTag.size())) continue;
        const Rate rate = rate_of(file, other);
        return rate.plan == nullptr ? copied_bytes(other) : rate.flops();
      }
  return 0;
}

/// The share of the yardstick that the case took turns with, of what a launch does in FLOPs or bytes; otherwise that of
/// one that ran by itself at rate `together`, of `rate`.
std::string share_text(const ResultFile& file, const Result& result, double work, double rate, double together) {
  if (const std::optional<double> times = times_of_yardstick(result))
    if (const double other = work_of_yardstick(file, result); other > 0)
      return fmt::format("{:.2f}", *times * work / other);
  return together == 0 ? "-" : fmt::format("{:.2f}", rate / together);
}

}  // namespace

std::string to_kernel_table(const ResultFile& file) {
  Table table;
  table.add_column("kernel benchmark", Align::kLeft);
  table.add_column("runs as", Align::kLeft);
  for (const char* header : {"a launch", "95% interval", "GFLOP/s", "GB/s", "of the yardstick"})
    table.add_column(header);

  const bool has_cold =
      std::ranges::any_of(file.results, [](const Result& result) { return find_cold(result) != nullptr; });
  if (has_cold) table.add_column("cold");

  double copy_gigabytes = 0;
  std::map<std::string, double> product_gflops;  // the best linear of each dtype
  for (const Result& result : file.results) {
    if (result.subject.name == "copy")
      copy_gigabytes = copied_bytes(result) / series_of(result, "launch").statistics.median * 1e-6;
    if (result.subject.name != "linear") continue;
    const Rate rate = rate_of(file, result);
    if (!rate.is_one_launch()) continue;
    double& best = product_gflops[rate.node().compute_type];
    best = std::max(best, rate.gflops());
  }
  for (const Result& result : file.results) {
    const Rate rate = rate_of(file, result);
    const Summary& statistics = series_of(result, "launch").statistics;
    std::vector<std::string> cells = {
        result.name, rate.kernels(), format_ms(rate.median_ms),
        statistics.median_interval ? format_interval_ms(*statistics.median_interval) : "-"};
    if (rate.plan == nullptr) {
      cells.insert(cells.end(), {"-", format_significant(copy_gigabytes), "1.00"});
    } else if (rate.is_product()) {
      const auto best = product_gflops.find(rate.node().compute_type);
      cells.insert(cells.end(), {format_significant(rate.gflops()), "-",
                                 share_text(file, result, rate.flops(), rate.gflops(),
                                            best == product_gflops.end() ? 0 : best->second)});
    } else if (!rate.is_one_launch()) {
      cells.insert(cells.end(), {"-", "-", "-"});
    } else {
      cells.insert(cells.end(), {"-", format_significant(rate.gigabytes()),
                                 share_text(file, result, rate.node().cost_bytes, rate.gigabytes(), copy_gigabytes)});
    }
    if (has_cold) {
      const TrialSeries* cold = find_cold(result);
      cells.push_back(cold == nullptr ? "-" : format_ms(cold->statistics.median));
    }
    table.add_row(std::move(cells));
  }
  return table.render() +
         "\nyardsticks: the copy for what memory bounds, the fastest linear of the same compute type for products\n";
}

}  // namespace headroom
