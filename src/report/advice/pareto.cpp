#include "report/advice/pareto.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/chart.hpp"
#include "report/plots/option.hpp"

namespace headroom {
namespace {

using nlohmann::json;

bool is_on_frontier(const ParetoPoint& point, const std::vector<ParetoPoint>& points, const ParetoAxes& axes) {
  const double sign = axes.more_is_better ? 1 : -1;
  if (point.is_unsettled) return false;
  return std::ranges::none_of(points, [&](const ParetoPoint& other) {
    if (other.is_unsettled) return false;
    const double gain = sign * (other.quality - point.quality);
    return other.cost <= point.cost && gain >= 0 && (other.cost < point.cost || gain > 0);
  });
}

constexpr std::size_t kMostNamed = 5;  // points; more are numbered, and all are on a narrow screen

std::vector<ParetoPoint> by_cost(std::vector<ParetoPoint> points) {
  std::ranges::stable_sort(points, {}, &ParetoPoint::cost);
  return points;
}

}  // namespace

void add_point(std::vector<ParetoPoint>& points, ParetoPoint point) {
  const auto same = std::ranges::find_if(points, [&](const ParetoPoint& other) {
    return other.cost == point.cost && other.quality == point.quality && other.is_unsettled == point.is_unsettled;
  });
  if (same == points.end())
    points.push_back(std::move(point));
  else
    same->labels.insert(same->labels.end(), point.labels.begin(), point.labels.end());
}

std::size_t count_on_frontier(const std::vector<ParetoPoint>& points, const ParetoAxes& axes) {
  return static_cast<std::size_t>(
      std::ranges::count_if(points, [&](const ParetoPoint& point) { return is_on_frontier(point, points, axes); }));
}

json draw_pareto(std::vector<ParetoPoint> points, const ParetoAxes& axes) {
  points = by_cost(std::move(points));
  json frontier = json::array(), items = json::array(), intervals = json::array();
  for (const ParetoPoint& point : points) {
    const bool is_best = is_on_frontier(point, points, axes);
    Tip tip(fmt::format("{}", fmt::join(point.labels, ", ")));
    tip.row(axes.quality, exact(point.quality, ""));
    if (point.interval) tip.row("95% interval", exact(*point.interval, ""));
    tip.row(axes.cost, exact(point.cost, axes.cost_unit));
    tip.row("frontier", point.is_unsettled ? "not judged: the time is unsettled"
                        : is_best          ? "on it: nothing is as good in both"
                                           : "beaten in both");
    std::string text = point.labels.front();
    if (point.labels.size() > 1) text += fmt::format(" and {} more", point.labels.size() - 1);
    if (points.size() > kMostNamed) text = fmt::format("{}", items.size() + 1);
    items.push_back({{"value", json::array({point.cost, point.quality})},
                     {"text", text},
                     {"tip", tip.json()},
                     {"itemStyle", item_style(is_best ? "orange" : "base", point.is_unsettled)}});
    if (is_best) frontier.push_back(json::array({point.cost, point.quality}));
    if (point.interval) intervals.push_back(json::array({point.cost, point.interval->low, point.interval->high}));
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 60}, {"top", 36}, {"bottom", 44}, {"containLabel", true}};
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
  const json numbers = {{"label", {{"fontSize", 10}, {"formatter", fn("label_number")}}}};
  narrow_option(option) = {{"grid", {{"right", 16}}},
                           {"xAxis", {{"splitNumber", 2}}},
                           {"series", json::array({json::object(), json::object(), numbers})}};
  return option;
}

std::string pareto_note(const std::vector<ParetoPoint>& points, const ParetoAxes& axes) {
  std::string note =
      count_on_frontier(points, axes) == 1
          ? "The orange point is the Pareto frontier: nothing is as good in either."
          : "The dashed line is the Pareto frontier: nothing is both cheaper and as good as what is on it.";
  if (std::ranges::any_of(points, &ParetoPoint::is_unsettled))
    note += " Hollow points are unsettled: nothing is claimed of their time, and none is on the frontier.";
  note += " Points from left to right:";
  std::size_t number = 0;
  for (const ParetoPoint& point : by_cost(points)) {
    ++number;
    note += fmt::format("{} {} {}", number == 1 ? "" : ";", number, fmt::join(point.labels, ", "));
  }
  return note + ".";
}

}  // namespace headroom
