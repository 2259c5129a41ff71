#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"

/// Charts of what configurations cost against how good they are.
namespace headroom {

struct ParetoPoint {
  double cost = 0;  ///< the less the better
  double quality = 0;
  std::optional<Interval> interval;  ///< of the quality
  std::vector<std::string> labels;   ///< configurations that fall on one point
  bool is_unsettled = false;  ///< its cost is no fact: it is drawn hollow, and neither is on the frontier nor beats any
};

/// What cost and quality are.
struct ParetoAxes {
  std::string_view cost, cost_unit;  ///< as tooltips name them: "weights", "bytes"
  std::string_view quality;
  bool more_is_better = true;  ///< of the quality
};

/// Puts a point beside the others, or its labels on the one that lies there.
void add_point(std::vector<ParetoPoint>& points, ParetoPoint point);
/// How many points no other beats: none costs as little and is better, or costs less and is as good.
[[nodiscard]] std::size_t count_on_frontier(const std::vector<ParetoPoint>& points, const ParetoAxes& axes);
/// The points, those on the frontier marked and joined by a line. The chart's axes are still to be named.
[[nodiscard]] nlohmann::json draw_pareto(std::vector<ParetoPoint> points, const ParetoAxes& axes);
/// What the line is, and what the points are called by their numbers, for a chart's notes: "The dashed line is the Pareto frontier: ...".
[[nodiscard]] std::string pareto_note(const std::vector<ParetoPoint>& points, const ParetoAxes& axes);

}  // namespace headroom
