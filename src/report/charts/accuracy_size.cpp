// Accuracy against the bytes of weights, and the Pareto-optimal configurations.

#include <fmt/format.h>

#include <algorithm>

#include "report/advice/pareto.hpp"
#include "report/advice/quality_loss.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

ParetoAxes size_axes() { return {.cost = "weights", .cost_unit = "bytes"}; }

/// `shown` gets what the points are of.
std::vector<ParetoPoint> points_of(const Scenario& scenario, std::vector<const Measurement*>& shown) {
  std::vector<ParetoPoint> points;
  for (const Measurement* m : scenario.current) {
    const QualityRecord* accuracy = find_quality(*m->result, "accuracy");
    const std::optional<MemoryReport>& memory = m->result->memory;
    if (accuracy == nullptr || !accuracy->value || !memory || !memory->weights_bytes) continue;
    add_point(points, {.cost = static_cast<double>(*memory->weights_bytes),
                       .quality = *accuracy,
                       .measurement = m,
                       .labels = {m->precision ? fmt::format("{} ({})", m->label, *m->precision) : m->label}});
    shown.push_back(m);
  }
  return points;
}

nlohmann::json draw(const std::vector<ParetoPoint>& points) {
  ParetoAxes axes = size_axes();
  constexpr double kNearAll = 0.8;  // above this, the axis would end above 100%
  for (const ParetoPoint& point : points) {
    const QualityRecord& accuracy = point.quality;
    if (std::max(*accuracy.value, accuracy.interval ? accuracy.interval->high : 0) > kNearAll) axes.quality_end = 1;
  }
  nlohmann::json option = draw_pareto(points, axes);
  option["yAxis"] = value_axis("accuracy", "axis_percent");
  option["yAxis"].update({{"scale", true}, {"nameLocation", "end"}, {"nameGap", 10}});
  if (axes.quality_end) option["yAxis"]["max"] = *axes.quality_end;
  set_byte_axis(option, "size of the weights", std::ranges::max(points, {}, &ParetoPoint::cost).cost * 1.2);
  return option;
}

}  // namespace

Drawn accuracy_size(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    std::vector<const Measurement*> shown;
    const std::vector<ParetoPoint> points = points_of(scenario, shown);
    if (points.size() < 2) continue;
    drawn.charts.push_back(
        {.file = numbered("accuracy_size", drawn.charts.size()),
         .title = "Accuracy against the size of the weights",
         .subtitle = subtitle_of(scenario),
         .of = {&scenario},
         .option = draw(points),
         .notes = {pareto_note(points, size_axes()),
                   "Whiskers are the 95% score interval of the accuracy; configurations on one point share a label."}});
    note_few_images(drawn.charts.back().notes, shown, "accuracy");
    note_revisions(drawn.charts.back().notes, shown);
  }
  drawn.left_out = "no two configurations of one work were judged for accuracy (headroom ladder --quality) and differ";
  return drawn;
}

}  // namespace headroom::charts
