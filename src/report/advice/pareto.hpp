#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"

/// Scatter charts of quality against cost, with the Pareto frontier.
namespace headroom {

struct ParetoPoint {
  double cost = 0;  ///< less is better
  double quality = 0;
  std::optional<Interval> interval;  ///< of the quality
  std::vector<std::string> labels;   ///< configurations that share this point
  /// its cost is not settled: drawn hollow, neither on the frontier nor dominating any point
  bool is_unsettled = false;
};

/// The meaning of cost and quality in a chart.
struct ParetoAxes {
  std::string_view cost, cost_unit;  ///< names in tooltips: "weights", "bytes"
  std::string_view quality;
  bool more_is_better = true;  ///< for the quality
};

/// Adds a point, or adds its labels to an existing point at the same place.
void add_point(std::vector<ParetoPoint>& points, ParetoPoint point);
/// Number of points that no other point dominates. A point dominates another if it costs no more and is better, or
/// costs less and is as good.
[[nodiscard]] std::size_t count_on_frontier(const std::vector<ParetoPoint>& points, const ParetoAxes& axes);
/// Draws the points; those on the frontier are marked and joined by a line. The caller still has to name the
/// chart's axes.
[[nodiscard]] nlohmann::json draw_pareto(std::vector<ParetoPoint> points, const ParetoAxes& axes);
/// Explains the line and the numbered points, for a chart's notes: "The dashed line is the Pareto frontier: ...".
[[nodiscard]] std::string pareto_note(const std::vector<ParetoPoint>& points, const ParetoAxes& axes);

}  // namespace headroom
