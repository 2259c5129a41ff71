#include "report/advice/pareto.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
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
  const bool is_paired = other.measurement->is_baseline() && other.measurement->file == one.measurement->file;
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
  if (!a.measurement->is_baseline()) {
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

/// By cost, then by value.
std::vector<ParetoPoint> in_order(std::vector<ParetoPoint> points) {
  std::ranges::stable_sort(points, {},
                           [](const ParetoPoint& point) { return std::pair(point.cost, *point.quality.value); });
  return points;
}

/// The size of a plot in pixels, about that of the charts.
struct PlotSize {
  double width = 0, height = 0;
};
constexpr PlotSize kWidePlot = {780, 370}, kNarrowPlot = {260, 190};

/// A place in a plot.
struct PlotPlace {
  double x = 0, y = 0;  // y grows upwards
};

/// A point with its whisker, in pixels.
struct PlacedPoint {
  PlotPlace at;
  Interval whisker;  // of y
};

std::vector<PlacedPoint> placed(const std::vector<ParetoPoint>& points, const ParetoAxes& axes, const PlotSize& plot) {
  double most_cost = 0, high = 0, low = std::numeric_limits<double>::infinity();
  for (const ParetoPoint& point : points) {
    const double value = *point.quality.value;
    const Interval ends = point.quality.interval.value_or(Interval{value, value});
    most_cost = std::max(most_cost, point.cost);
    high = std::max({high, value, ends.high});
    low = std::min({low, value, ends.low});
  }
  if (axes.quality_end) high = std::max(high, *axes.quality_end);
  if (find_metric(points.front().quality.metric)->scale == LossScale::kGrowth) low = 0;  // where the axis begins
  constexpr double kBeyond = 1.1;  // an axis ends at a round number beyond its highest value
  const auto share = [](double part, double whole) { return whole > 0 ? part / (kBeyond * whole) : 0; };
  const auto y_of = [&](double value) { return plot.height * share(value - low, high - low); };
  std::vector<PlacedPoint> all;
  for (const ParetoPoint& point : points) {
    const double y = y_of(*point.quality.value);
    const std::optional<Interval>& interval = point.quality.interval;
    all.push_back({.at = {plot.width * share(point.cost, most_cost), y},
                   .whisker = interval ? Interval{y_of(interval->low), y_of(interval->high)} : Interval{y, y}});
  }
  return all;
}

/// Whether a box around `at` covers a part of the dashed line through `corners`, which goes right and then up or down.
bool covers_line(const PlotPlace& at, double half_width, double half_height, const std::vector<PlotPlace>& corners) {
  for (std::size_t i = 0; i + 1 < corners.size(); ++i) {
    const PlotPlace &from = corners[i], &to = corners[i + 1];
    const auto [low, high] = std::minmax(from.y, to.y);
    if (std::abs(at.y - from.y) < half_height && at.x + half_width > from.x && at.x - half_width < to.x) return true;
    if (std::abs(at.x - to.x) < half_width && at.y + half_height > low && at.y - half_height < high) return true;
  }
  return false;
}

/// The side of each point on which its number covers no point, whisker, line or number before it, if there is one.
/// `on_line` are the indices of the points that the dashed line joins.
std::vector<std::string_view> sides_of_numbers(const std::vector<PlacedPoint>& points,
                                               const std::vector<std::size_t>& on_line) {
  std::vector<PlotPlace> line;
  for (const std::size_t i : on_line) line.push_back(points[i].at);
  constexpr std::pair<std::string_view, PlotPlace> kSides[] = {
      {"right", {20, 0}}, {"bottom", {0, -20}}, {"top", {0, 20}}, {"left", {-20, 0}}};
  constexpr double kNear = 15;  // from centre to centre, what overlaps
  std::vector<std::string_view> sides;
  std::vector<PlotPlace> numbers;
  for (const PlacedPoint& point : points) {
    const auto number_at = [&](const PlotPlace& side) { return PlotPlace{point.at.x + side.x, point.at.y + side.y}; };
    const auto is_free = [&](const PlotPlace& number) {
      const auto covers_point = [&](const PlacedPoint& other) {
        return std::abs(other.at.x - number.x) < kNear && number.y > other.whisker.low - kNear &&
               number.y < other.whisker.high + kNear;
      };
      const auto covers_number = [&](const PlotPlace& other) {
        return std::abs(other.x - number.x) < kNear && std::abs(other.y - number.y) < kNear;
      };
      constexpr double kHalf = 8;  // of a number
      return std::ranges::none_of(points, covers_point) && std::ranges::none_of(numbers, covers_number) &&
             !covers_line(number, kHalf, kHalf, line);
    };
    const auto found = std::ranges::find_if(kSides, [&](const auto& side) { return is_free(number_at(side.second)); });
    const auto& [name, offset] = found == std::end(kSides) ? kSides[0] : *found;
    sides.push_back(name);
    numbers.push_back(number_at(offset));
  }
  return sides;
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

namespace {

/// Those that no other beats, in the order of `points`.
std::vector<const ParetoPoint*> frontier_of(const std::vector<ParetoPoint>& points, const ParetoAxes& axes) {
  std::vector<const ParetoPoint*> frontier;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!points[i].is_unsettled && beaten_by(i, points, axes) == nullptr) frontier.push_back(&points[i]);
  return frontier;
}

/// Whether the dashed line goes on to the right of a point.
bool is_left_of_line(const ParetoPoint& point, const std::vector<const ParetoPoint*>& line) {
  return std::ranges::find(line, &point) != line.end() && line.back()->cost > point.cost;
}

}  // namespace

json draw_pareto(std::vector<ParetoPoint> points, const ParetoAxes& axes) {
  points = in_order(std::move(points));
  json line = json::array(), items = json::array(), best_items = json::array(), intervals = json::array(),
       texts = json::array();
  json numbers = json::array();  // of a narrow screen
  const bool has_numbers = points.size() > kMostNamed;
  const std::vector<const ParetoPoint*> joined = line_through(frontier_of(points, axes));
  std::vector<std::size_t> on_line;
  for (const ParetoPoint* point : joined) on_line.push_back(static_cast<std::size_t>(point - points.data()));
  const std::vector<std::string_view> sides = sides_of_numbers(placed(points, axes, kWidePlot), on_line),
                                      narrow_sides = sides_of_numbers(placed(points, axes, kNarrowPlot), on_line);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ParetoPoint& point = points[i];
    const ParetoPoint* const better = beaten_by(i, points, axes);
    const bool is_best = better == nullptr && !point.is_unsettled;
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
    const std::string number = fmt::format("{}", i + 1);
    if (has_numbers) text = number;
    const json at = json::array({point.cost, *point.quality.value});
    numbers.push_back({{"value", at}, {"text", number}, {"label", {{"position", narrow_sides[i]}}}});
    texts.push_back({{"value", at}, {"text", text}});
    if (has_numbers)
      texts.back()["label"] = {{"position", sides[i]}};
    else if (is_left_of_line(point, joined))
      texts.back()["label"] = {{"verticalAlign", "bottom"}, {"padding", json::array({0, 0, 3, 0})}};  // above the line
    json item = {{"value", at},
                 {"text", text},
                 {"tip", tip.json()},
                 {"itemStyle", item_style(is_best ? "orange" : "base", point.is_unsettled)}};
    (is_best ? best_items : items).push_back(std::move(item));
    if (interval) intervals.push_back(json::array({point.cost, interval->low, interval->high}));
  }
  for (json& item : best_items) items.push_back(std::move(item));  // drawn above those that they beat
  for (const ParetoPoint* point : joined) line.push_back(json::array({point->cost, *point->quality.value}));
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
                                  {{"type", "scatter"}, {"symbolSize", 13}, {"data", items}, {"z", 6}},
                                  // Invisible points carry the texts, above all points.
                                  {{"type", "scatter"},
                                   {"symbolSize", 13},
                                   {"silent", true},
                                   {"itemStyle", {{"color", "transparent"}}},
                                   {"data", texts},
                                   {"z", 7},
                                   {"label", value_label({{"width", 220}, {"overflow", "break"}})}}});
  option["series"].back()["labelLayout"] = {{"hideOverlap", true}};
  if (!has_numbers) option["series"].back()["labelLayout"]["moveOverlap"] = "shiftY";
  const json numbered = {{"data", std::move(numbers)}, {"label", {{"fontSize", 10}}}};
  narrow_option(option) = {{"grid", {{"right", 16}}},
                           {"xAxis", {{"splitNumber", 2}}},
                           {"series", json::array({json::object(), json::object(), json::object(), numbered})}};
  return option;
}

std::string pareto_note(const std::vector<ParetoPoint>& unordered, const ParetoAxes& axes) {
  const std::vector<ParetoPoint> points = in_order(unordered);
  const std::vector<const ParetoPoint*> frontier = frontier_of(points, axes);
  std::string note;
  if (frontier.empty()) {
    note = "No time is settled, so no point is on a Pareto frontier.";
  } else {
    note = frontier.size() == 1 ? "The orange point is the Pareto frontier" : "Orange points are the Pareto frontier";
    if (line_through(frontier).size() > 1) note += ", along the dashed line";
    note += ": no other is shown to be better in one and no worse in the other.";
  }
  if (std::ranges::any_of(points, &ParetoPoint::is_unsettled))
    note += " Hollow points are unsettled: nothing is claimed of their time, and none is on the frontier.";
  const bool has_equal = std::ranges::adjacent_find(points, {}, &ParetoPoint::cost) != points.end();
  note += fmt::format(" {} from left to right{}:",
                      points.size() > kMostNamed ? "Points" : "Without room for names, points are numbered",
                      has_equal ? ", at one place upwards" : "");
  std::size_t number = 0;
  for (const ParetoPoint& point : points) {
    ++number;
    note += fmt::format("{} {} {}", number == 1 ? "" : ";", number, fmt::join(point.labels, ", "));
  }
  return note + ".";
}

}  // namespace headroom
