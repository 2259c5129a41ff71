#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/dataset.hpp"

/// Scatter charts of quality against cost, with the Pareto frontier.
namespace headroom {

struct ParetoPoint {
  double cost = 0;        ///< less is better
  QualityRecord quality;  ///< has a value
  const Measurement* measurement = nullptr;
  std::vector<std::string> labels;  ///< configurations that share this point
  /// its cost is not settled: drawn hollow, neither on the frontier nor dominating any point
  bool is_unsettled = false;
};

/// The meaning of cost and quality in a chart.
struct ParetoAxes {
  std::string_view cost, cost_unit;  ///< names in tooltips: "weights", "bytes"
  /// How many times as much the second costs as the first, with its interval where costs have noise. Without one, or
  /// without a factor, the costs themselves decide.
  std::function<std::optional<Estimate>(const ParetoPoint&, const ParetoPoint&)> factor = {};
  std::optional<double> quality_end = {};  ///< of its axis, if that is beyond the highest value
};

/// Adds a point, or adds its labels to an existing point at the same place.
void add_point(std::vector<ParetoPoint>& points, ParetoPoint point);
/// The point that beats `points[index]`, or null if it is on the frontier. A point beats another if the intervals show
/// that it costs less and its quality is no lower, or that it is better and it is not shown to cost more. Costs are
/// compared as the advice compares times, and qualities by measured_losses(). Each point is beaten by none or by one of
/// at least its quality, so a frontier is never empty.
[[nodiscard]] const ParetoPoint* beaten_by(std::size_t index, const std::vector<ParetoPoint>& points,
                                           const ParetoAxes& axes);
/// Draws the points; those on the frontier are marked and joined by a line. The caller still has to name the
/// chart's axes.
[[nodiscard]] nlohmann::json draw_pareto(std::vector<ParetoPoint> points, const ParetoAxes& axes);
/// Explains the line and the numbered points, for a chart's notes: "The dashed line is the Pareto frontier: ...".
[[nodiscard]] std::string pareto_note(const std::vector<ParetoPoint>& points, const ParetoAxes& axes);

}  // namespace headroom
