// Accuracy against the bytes of weights, and which configurations no other beats in both.

#include <fmt/ranges.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/option.hpp"
#include "report/quality_loss.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

struct Point {
  double bytes;
  double accuracy;
  std::optional<Interval> interval;
  std::vector<std::string> labels;  // configurations that fall on one point
};

std::vector<Point> points_of(const Scenario& scenario) {
  std::vector<Point> points;
  for (const Measurement* m : scenario.current) {
    const QualityRecord* accuracy = find_quality(*m->result, "accuracy");
    const std::optional<MemoryReport>& memory = m->result->memory;
    if (accuracy == nullptr || !accuracy->value || !memory || !memory->weights_bytes) continue;
    const auto bytes = static_cast<double>(*memory->weights_bytes);
    const auto same = std::ranges::find_if(
        points, [&](const Point& point) { return point.bytes == bytes && point.accuracy == *accuracy->value; });
    if (same != points.end())
      same->labels.push_back(m->label);
    else
      points.push_back({bytes, *accuracy->value, accuracy->interval, {m->label}});
  }
  std::ranges::sort(points, {}, &Point::bytes);
  return points;
}

/// Not beaten: nothing is as small and more accurate, or smaller and as accurate.
bool is_on_frontier(const Point& point, const std::vector<Point>& points) {
  return std::ranges::none_of(points, [&](const Point& other) {
    return other.bytes <= point.bytes && other.accuracy >= point.accuracy &&
           (other.bytes < point.bytes || other.accuracy > point.accuracy);
  });
}

json draw(const std::vector<Point>& points) {
  json frontier = json::array(), items = json::array(), intervals = json::array();
  for (const Point& point : points) {
    const bool is_best = is_on_frontier(point, points);
    Tip tip(fmt::format("{}", fmt::join(point.labels, ", ")));
    tip.row("accuracy", exact(point.accuracy, ""));
    if (point.interval) tip.row("95% interval", exact(*point.interval, ""));
    tip.row("weights", exact(point.bytes, "bytes"));
    tip.row("frontier", is_best ? "on it: nothing is both smaller and as accurate" : "beaten in both");
    std::string text = point.labels.front();
    if (point.labels.size() > 1) text += fmt::format(" and {} more", point.labels.size() - 1);
    items.push_back({{"value", json::array({point.bytes, point.accuracy})},
                     {"text", text},
                     {"tip", tip.json()},
                     {"itemStyle", {{"color", color(is_best ? "orange" : "base")}, {"opacity", 1}}}});
    if (is_best) frontier.push_back(json::array({point.bytes, point.accuracy}));
    if (point.interval) intervals.push_back(json::array({point.bytes, point.interval->low, point.interval->high}));
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 60}, {"top", 36}, {"bottom", 44}, {"containLabel", true}};
  option["xAxis"] = byte_axis("size of the weights", points.back().bytes * 1.2);
  option["xAxis"]["min"] = 0;
  option["yAxis"] = value_axis("accuracy", "axis_percent");
  option["yAxis"]["scale"] = true;
  option["yAxis"]["nameLocation"] = "end";
  option["yAxis"]["nameGap"] = 10;
  option["series"] = json::array({{{"type", "line"},
                                   {"name", "Pareto frontier"},
                                   {"step", "end"},
                                   {"silent", true},
                                   {"symbol", "none"},
                                   {"data", frontier},
                                   {"lineStyle", {{"type", "dashed"}, {"width", 2}, {"color", color("orange")}}}},
                                  vertical_whiskers(std::move(intervals)),
                                  {{"type", "scatter"},
                                   {"symbolSize", 13},
                                   {"data", items},
                                   {"z", 6},
                                   {"labelLayout", {{"hideOverlap", true}, {"moveOverlap", "shiftY"}}},
                                   {"label", value_label({{"width", 220}, {"overflow", "break"}})}}});
  option["media"] = json::array(
      {{{"query", {{"maxWidth", 600}}},
        {"option",
         {{"grid", {{"right", 16}}},
          {"xAxis", {{"splitNumber", 2}}},
          {"series", json::array({json::object(),
                                  json::object(),
                                  {{"label", {{"position", "top"}, {"width", 110}, {"fontSize", 10}}}}})}}}}});
  return option;
}

}  // namespace

Drawn accuracy_size(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    const std::vector<Point> points = points_of(scenario);
    if (points.size() < 2) continue;
    const auto on_frontier =
        std::ranges::count_if(points, [&](const Point& point) { return is_on_frontier(point, points); });
    drawn.charts.push_back(
        {.file = numbered("accuracy_size", drawn.charts.size()),
         .title = "Accuracy against the size of the weights",
         .subtitle = subtitle_of(scenario),
         .option = draw(points),
         .notes = {on_frontier == 1
                       ? "The orange point is the Pareto frontier: no configuration is smaller or more accurate."
                       : "The dashed line is the Pareto frontier: no configuration is both smaller and as accurate as "
                         "one on it.",
                   "Whiskers are the 95% score interval of the accuracy; configurations on one point share a label."}});
    note_revisions(drawn.charts.back().notes, scenario.current);
  }
  drawn.left_out = "no two configurations of one work were judged for accuracy (headroom ladder --quality) and differ";
  return drawn;
}

}  // namespace headroom::charts
