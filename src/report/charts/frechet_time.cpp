// Fréchet distance to real images against the time of an image: the quality cost of fewer and cheaper steps. Models
// and numbers of steps share a chart, because everything judged against the same images has the same task.

#include <algorithm>
#include <map>
#include <set>

#include "report/advice/pareto.hpp"
#include "report/advice/quality_loss.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

ParetoAxes distance_axes(const Dataset& dataset) {
  return {.cost = "time of an image", .cost_unit = "ms", .factor = [&](const ParetoPoint& a, const ParetoPoint& b) {
            return dataset.factor(*b.measurement, *a.measurement);
          }};
}

/// Results judged alike on one machine: keyed by hardware and by the reference of the metric.
using Group = std::pair<std::string, std::string>;
using Judged = std::vector<const Measurement*>;

std::map<Group, Judged> judged_by_group(const Dataset& dataset) {
  std::map<Group, Judged> groups;
  for (const Scenario& scenario : dataset.scenarios())
    for (const Measurement* m : scenario.current) {
      const QualityRecord* const distance = find_quality(*m->result, "frechet_distance");
      if (distance != nullptr && distance->value && m->timing && m->timing->unit == "image")
        groups[{scenario.hardware, distance->against}].push_back(m);
    }
  return groups;
}

std::vector<ParetoPoint> judged_points(const Judged& judged) {
  std::set<std::string> models;
  for (const Measurement* m : judged) models.insert(m->result->subject.name);
  std::vector<ParetoPoint> points;
  for (const Measurement* m : judged) {
    const std::string model = models.size() > 1 ? m->result->subject.name + " " : "";
    const QualityRecord& distance = *find_quality(*m->result, "frechet_distance");
    add_point(points, {.cost = m->time().median_ms,
                       .quality = distance,
                       .measurement = m,
                       .labels = {model + m->shown_name()},
                       .is_unsettled = m->unsettled.has_value()});
  }
  return points;
}

nlohmann::json draw_distances(const std::vector<ParetoPoint>& points, const ParetoAxes& axes) {
  nlohmann::json option = draw_pareto(points, axes);
  option["xAxis"] = value_axis("time of an image", "axis_ms");
  option["xAxis"]["min"] = 0;
  option["yAxis"] = value_axis("Fréchet distance", "axis_plain");
  option["yAxis"].update({{"min", 0},
                          {"boundaryGap", nlohmann::json::array({0, "8%"})},
                          {"nameLocation", "end"},
                          {"nameGap", 10},
                          {"nameTextStyle", {{"align", "left"}}}});
  option["grid"]["right"] = 200;  // model names are long
  return option;
}

}  // namespace

Drawn frechet_time(const Dataset& dataset) {
  Drawn drawn;
  const ParetoAxes axes = distance_axes(dataset);
  for (const auto& [group, judged] : judged_by_group(dataset)) {
    const std::vector<ParetoPoint> points = judged_points(judged);
    if (points.size() < 2) continue;
    drawn.charts.push_back(
        {.file = numbered("frechet_time", drawn.charts.size()),
         .title = "Fréchet distance from real images against the time of an image",
         .subtitle = "on " + group.first,
         .of = dataset.scenarios_of(judged),
         .option = draw_distances(points, axes),
         .notes = {pareto_note(points, axes),
                   "Lower is better in both. The distance is biased upwards for few images: compare only "
                   "values of equally many."}});
    note_few_images(drawn.charts.back().notes, judged, "frechet_distance");
    note_revisions(drawn.charts.back().notes, judged);
  }
  drawn.left_out =
      "no two configurations were timed by the image and judged for their Fréchet distance (headroom ladder --quality)";
  return drawn;
}

}  // namespace headroom::charts
