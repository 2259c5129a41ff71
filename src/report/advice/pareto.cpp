#include "report/advice/pareto.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "measure/quality/quality_loss.hpp"
#include "report/chart.hpp"
#include "report/plots/option.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// How much worse `one` is than `other`, by their records; by the paired difference if `other` is the baseline of the
/// same file. Nothing if the records cannot be compared.
std::optional<MeasuredLoss> loss_against(const ParetoPoint& one, const ParetoPoint& other) {
  const bool is_paired = other.measurement->switches().empty() && other.measurement->file == one.measurement->file;
  const std::span<const QualityRecord> own =
      is_paired ? std::span(one.measurement->result->quality) : std::span(&one.quality, 1);
  const std::vector<MeasuredLoss> losses = measured_losses(own, {&other.quality, 1});
  const auto found =
      std::ranges::find_if(losses, [&](const MeasuredLoss& loss) { return loss.metric->name == one.quality.metric; });
  return found == losses.end() ? std::nullopt : std::optional(*found);
}

/// The sign of an estimate against a reference: what its interval shows, or without one what the value is.
Finding shown_by(const Estimate& estimate, double reference) {
  if (estimate.interval) return finding_of(estimate.interval, reference);
  return finding_of(Interval{estimate.value, estimate.value}, reference);
}

/// kAbove if the first is shown to be better in quality, kBelow if the second is.
Finding quality_finding(const ParetoPoint& a, const ParetoPoint& b) {
  const auto shown = [](const ParetoPoint& one, const ParetoPoint& other) {
    const std::optional<MeasuredLoss> loss = loss_against(one, other);
    return loss ? shown_by({loss->value, loss->interval}, 0) : Finding::kInconclusive;
  };
  if (!a.measurement->switches().empty()) {
    const Finding loss = shown(a, b);
    return loss == Finding::kAbove ? Finding::kBelow : loss == Finding::kBelow ? Finding::kAbove : loss;
  }
  return shown(b, a);
}

/// kAbove if the second is shown to cost more.
Finding cost_finding(const ParetoPoint& a, const ParetoPoint& b, const ParetoAxes& axes) {
  const std::optional<Estimate> factor = axes.factor ? axes.factor(a, b) : std::nullopt;
  return factor ? shown_by(*factor, 1) : shown_by({b.cost - a.cost, {}}, 0);
}

bool is_no_worse(const ParetoPoint& a, const ParetoPoint& b) {
  const std::optional<MeasuredLoss> loss = loss_against(a, b);
  return loss && loss->value <= 0;
}

bool beats(const ParetoPoint& a, const ParetoPoint& b, const ParetoAxes& axes) {
  if (a.is_unsettled || b.is_unsettled) return false;
  const Finding cost = cost_finding(a, b, axes);
  if (cost == Finding::kAbove && a.cost < b.cost && is_no_worse(a, b)) return true;
  return cost != Finding::kBelow && quality_finding(a, b) == Finding::kAbove;
}

/// The points that the dashed line joins: those on the frontier that none of them surpasses by the values alone.
std::vector<const ParetoPoint*> line_through(const std::vector<const ParetoPoint*>& frontier) {
  std::vector<const ParetoPoint*> line;
  const auto surpasses = [](const ParetoPoint& a, const ParetoPoint& b) {
    return &a != &b && a.cost <= b.cost && is_no_worse(a, b) && (a.cost < b.cost || !is_no_worse(b, a));
  };
  std::ranges::copy_if(frontier, std::back_inserter(line), [&](const ParetoPoint* point) {
    return std::ranges::none_of(frontier, [&](const ParetoPoint* other) { return surpasses(*other, *point); });
  });
  return line;
}

constexpr std::size_t kMostNamed = 5;  // points; more are numbered, and all are on a narrow screen

std::vector<ParetoPoint> by_cost(std::vector<ParetoPoint> points) {
  std::ranges::stable_sort(points, {}, &ParetoPoint::cost);
  return points;
}

}  // namespace

void add_point(std::vector<ParetoPoint>& points, ParetoPoint point) {
  const auto same = std::ranges::find_if(points, [&](const ParetoPoint& other) {
    return other.cost == point.cost && other.quality.value == point.quality.value &&
           other.is_unsettled == point.is_unsettled;
  });
  if (same == points.end())
    points.push_back(std::move(point));
  else
    same->labels.insert(same->labels.end(), point.labels.begin(), point.labels.end());
}

const ParetoPoint* beaten_by(std::size_t index, const std::vector<ParetoPoint>& points, const ParetoAxes& axes) {
  const auto found = std::ranges::find_if(
      points, [&](const ParetoPoint& other) { return &other != &points[index] && beats(other, points[index], axes); });
  return found == points.end() ? nullptr : &*found;
}

json draw_pareto(std::vector<ParetoPoint> points, const ParetoAxes& axes) {
  points = by_cost(std::move(points));
  json line = json::array(), items = json::array(), intervals = json::array();
  std::vector<const ParetoPoint*> frontier;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ParetoPoint& point = points[i];
    const ParetoPoint* const better = beaten_by(i, points, axes);
    const bool is_best = better == nullptr && !point.is_unsettled;
    if (is_best) frontier.push_back(&point);
    const std::optional<Interval>& interval = point.quality.interval;
    Tip tip(fmt::format("{}", fmt::join(point.labels, ", ")));
    tip.row(find_metric(point.quality.metric)->title, exact(*point.quality.value, ""));
    if (interval) tip.row("95% interval", exact(*interval, ""));
    tip.row(axes.cost, exact(point.cost, axes.cost_unit));
    tip.row("frontier", point.is_unsettled ? "not judged: the time is unsettled"
                        : is_best          ? "on it: nothing beats it"
                                           : "beaten by " + better->labels.front());
    std::string text = point.labels.front();
    if (point.labels.size() > 1) text += fmt::format(" and {} more", point.labels.size() - 1);
    if (points.size() > kMostNamed) text = fmt::format("{}", items.size() + 1);
    items.push_back({{"value", json::array({point.cost, *point.quality.value})},
                     {"text", text},
                     {"tip", tip.json()},
                     {"itemStyle", item_style(is_best ? "orange" : "base", point.is_unsettled)}});
    if (interval) intervals.push_back(json::array({point.cost, interval->low, interval->high}));
  }
  for (const ParetoPoint* point : line_through(frontier))
    line.push_back(json::array({point->cost, *point->quality.value}));
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 60}, {"top", 36}, {"bottom", 44}, {"containLabel", true}};
  option["series"] = json::array({{{"type", "line"},
                                   {"name", "Pareto frontier"},
                                   {"step", "end"},
                                   {"silent", true},
                                   {"symbol", "none"},
                                   {"data", line},
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
  std::size_t on_frontier = 0;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!points[i].is_unsettled && beaten_by(i, points, axes) == nullptr) ++on_frontier;
  std::string note = on_frontier == 1 ? "The orange point is the Pareto frontier"
                                      : "Orange points are the Pareto frontier, along the dashed line";
  note += ": nothing is shown to be better in one and is as good in the other.";
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
