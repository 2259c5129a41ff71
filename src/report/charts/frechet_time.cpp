// Fréchet distance to real images against the time of an image: the quality cost of fewer and cheaper steps. Models
// and numbers of steps share a chart, because everything judged against the same images has the same task.

#include <fmt/ranges.h>

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

/// The parts of a work in words that others lack: "16 steps", "10 images at once, 16 steps".
std::string part_of_work(const Scenario& scenario, const std::vector<const Scenario*>& others) {
  constexpr std::string_view kComma = ", ";
  const auto parts_of = [&](const std::string& work) {
    std::vector<std::string> parts;
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + kComma.size()) {
      end = work.find(kComma, at);
      parts.push_back(work.substr(at, end - at));
    }
    return parts;
  };
  std::vector<std::string> own = parts_of(scenario.work);
  std::erase_if(own, [&](const std::string& part) {
    return std::ranges::all_of(others, [&](const Scenario* other) {
      const std::vector<std::string> its = parts_of(other->work);
      return std::ranges::find(its, part) != its.end();
    });
  });
  return fmt::format("{}", fmt::join(own, kComma));
}

/// The names of judged measurements. If one is of several works, the work is added where these differ.
std::vector<std::string> names_of_judged(const Dataset& dataset, const Judged& judged) {
  std::set<std::string> models;
  for (const Measurement* m : judged) models.insert(m->result->subject.name);
  std::vector<std::string> names;
  std::map<std::string, std::vector<const Scenario*>> works;
  for (const Measurement* m : judged) {
    names.push_back((models.size() > 1 ? m->result->subject.name + " " : "") + m->shown_name());
    works[names.back()].push_back(&dataset.scenario_of(*m));
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const std::vector<const Scenario*>& same = works.at(names[i]); same.size() > 1)
      if (const std::string part = part_of_work(dataset.scenario_of(*judged[i]), same); !part.empty())
        names[i] += fmt::format(" ({})", part);
  return names;
}

std::vector<ParetoPoint> judged_points(const Dataset& dataset, const Judged& judged) {
  const std::vector<std::string> names = names_of_judged(dataset, judged);
  std::vector<ParetoPoint> points;
  for (std::size_t i = 0; i < judged.size(); ++i) {
    const Measurement* const m = judged[i];
    const QualityRecord& distance = *find_quality(*m->result, "frechet_distance");
    add_point(points, {.cost = m->time().median_ms,
                       .quality = distance,
                       .measurement = m,
                       .labels = {names[i]},
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
    const std::vector<ParetoPoint> points = judged_points(dataset, judged);
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
