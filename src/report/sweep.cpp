#include "report/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/plots/option.hpp"

namespace headroom {

using nlohmann::json;

namespace {

/// Works belong to one sweep if they agree in `rest_of`, the remaining parts of the subject.
std::vector<Sweep> collect(const Dataset& dataset, const std::function<std::optional<double>(const Subject&)>& x_of,
                           const std::function<Subject(Subject)>& rest_of) {
  std::map<std::string, Sweep> by_rest;
  std::vector<std::string> order;
  for (const Scenario& scenario : dataset.scenarios()) {
    const std::optional<double> x = x_of(scenario.subject);
    if (scenario.subject.kind != SubjectKind::kModel || !x) continue;
    const Subject rest = rest_of(scenario.subject);
    const std::string key = fmt::format("{}|{}|{}", rest.name, rest.request.dump(), scenario.hardware);
    Sweep& sweep = by_rest[key];
    if (sweep.points.empty()) {
      order.push_back(key);
      sweep.hardware = scenario.hardware;
      sweep.work = describe_work(rest);
    }
    if (std::ranges::find(sweep.points, *x, &SweepPoint::x) == sweep.points.end())
      sweep.points.push_back({.x = *x, .scenario = &scenario});
  }
  std::vector<Sweep> sweeps;
  for (const std::string& key : order) {
    Sweep& sweep = by_rest[key];
    if (sweep.points.size() < 2) continue;
    std::ranges::sort(sweep.points, {}, &SweepPoint::x);
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

}  // namespace

std::vector<Sweep> sweeps_over(const Dataset& dataset, const std::set<std::string>& keys,
                               const std::function<std::optional<double>(const Subject&)>& x_of) {
  return collect(dataset, x_of, [&](Subject subject) {
    for (const std::string& key : keys) subject.request.erase(key);
    return subject;
  });
}

std::vector<Sweep> sweeps_over_models(const Dataset& dataset,
                                      const std::function<std::optional<double>(const Subject&)>& x_of) {
  return collect(dataset, x_of, [](Subject subject) {
    subject.name = "models of growing size";
    return subject;
  });
}

const std::set<std::string>& resolution_keys() {
  static const std::set<std::string> keys = {"image_tokens", "token_rows", "token_columns", "height", "width"};
  return keys;
}

namespace {

constexpr std::size_t kFew = 3;  // up to this number, all configurations are drawn

bool is_alike(const Measurement& a, const Measurement& b) {
  return a.label == b.label && a.is_peer == b.is_peer &&
         a.result->configuration.baseline_dtype == b.result->configuration.baseline_dtype;
}

/// The latest measurement at each point with the same requested switches as `like`.
SweepLine line_of(const Sweep& sweep, const Measurement& like, std::string_view role) {
  SweepLine line{.label = like.precision ? fmt::format("{} ({})", like.label, *like.precision) : like.label,
                 .role = role,
                 .at = {}};
  for (const SweepPoint& point : sweep.points) {
    const Measurement* latest = nullptr;
    for (const Measurement* m : point.scenario->current)
      if (m->timing && is_alike(*m, like) && (latest == nullptr || m->file->created >= latest->file->created))
        latest = m;
    line.at.push_back(latest);
  }
  return line;
}

/// The lines of those that `is_wanted`, each once, with two points or more: the fastest at the largest point first.
std::vector<SweepLine> lines_where(const Sweep& sweep, const std::function<bool(const Measurement&)>& is_wanted) {
  std::vector<SweepLine> lines;
  for (auto point = sweep.points.rbegin(); point != sweep.points.rend(); ++point) {
    std::vector<const Measurement*> measured;
    for (const Measurement* m : point->scenario->current)
      if (m->timing && is_wanted(*m)) measured.push_back(m);
    std::ranges::stable_sort(measured, {}, [](const Measurement* m) { return m->time().median_ms; });
    for (const Measurement* m : measured) {
      SweepLine line = line_of(sweep, *m, {});
      const bool is_new = std::ranges::none_of(lines, [&](const SweepLine& other) { return other.at == line.at; });
      if (is_new && std::ssize(line.at) - std::ranges::count(line.at, nullptr) >= 2) lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace

std::vector<SweepLine> lines_of(const Sweep& sweep) {
  const auto is_baseline = [](const Measurement& m) { return !m.is_peer && m.switches().empty(); };
  const auto is_optimized = [](const Measurement& m) { return !m.is_peer && !m.switches().empty(); };
  static constexpr std::string_view kOurRoles[] = {"orange", "blue", "gold"};
  static constexpr std::string_view kPeerRoles[] = {"purple", "green", "sky"};
  std::vector<SweepLine> lines = lines_where(sweep, is_baseline);
  for (SweepLine& line : lines) line.role = "base";
  std::vector<SweepLine> ours = lines_where(sweep, is_optimized);
  if (ours.size() > kFew) ours.resize(1);
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i].role = kOurRoles[i];
  std::vector<SweepLine> peers = lines_where(sweep, &Measurement::is_peer);
  for (std::size_t i = 0; i < peers.size(); ++i) peers[i].role = kPeerRoles[i % std::size(kPeerRoles)];
  std::ranges::move(ours, std::back_inserter(lines));
  std::ranges::move(peers, std::back_inserter(lines));
  static constexpr std::string_view kDashes[] = {"solid", "dashed", "dotted"};
  std::map<std::string_view, std::size_t> of_role;
  for (SweepLine& line : lines) line.dash = kDashes[of_role[line.role]++ % std::size(kDashes)];
  return lines;
}

std::vector<std::string> notes_on(const Sweep& sweep, const std::vector<SweepLine>& lines, std::string_view place) {
  std::vector<std::string> notes;
  for (const SweepLine& line : lines) {
    std::vector<Placed> placed;
    for (std::size_t i = 0; i < line.at.size(); ++i) {
      const SweepPoint& point = sweep.points[i];
      const std::string name = point.name.empty() ? fmt::format("{}", point.x) : point.name;
      if (line.at[i] != nullptr) placed.emplace_back(fmt::format(fmt::runtime(place), name), line.at[i]);
    }
    note_declined(notes, line.label, placed);
  }
  note_revisions(notes, measurements_of(lines));
  return notes;
}

std::vector<const Measurement*> measurements_of(const std::vector<SweepLine>& lines) {
  std::vector<const Measurement*> measurements;
  for (const SweepLine& line : lines)
    std::ranges::copy_if(line.at, std::back_inserter(measurements), [](const Measurement* m) { return m != nullptr; });
  return measurements;
}

std::string unit_of(const std::vector<SweepLine>& lines) {
  for (const SweepLine& line : lines)
    for (const Measurement* m : line.at)
      if (m != nullptr) return m->time().unit;
  return "run";
}

namespace {

/// The position of a point: its value, or its index on an axis of names.
json place_of(const Sweep& sweep, std::size_t point) {
  return sweep.points[point].name.empty() ? json(sweep.points[point].x) : json(point);
}

json sweep_x_axis(const Sweep& sweep, std::string_view x_name) {
  json axis = value_axis(x_name, "axis_plain");
  if (sweep.points.front().name.empty()) {
    axis.update({{"min", 0}, {"minInterval", 1}, {"boundaryGap", json::array({0, "5%"})}});
    return axis;
  }
  std::vector<std::string> names;
  for (const SweepPoint& point : sweep.points) names.push_back(point.name);
  axis.update({{"type", "category"}, {"data", std::move(names)}});
  axis["axisLabel"] = {{"interval", 0}, {"hideOverlap", true}};
  return axis;
}

constexpr double kLabelShare = 0.08;  // height of a label and its distance from the point, as a share of the axis
constexpr double kLowShare = 0.15;    // a value below this share of the axis has no room for a label below it

/// A value with the ends of its whisker, as shares of the axis.
struct Reach {
  double value = 0;
  Interval ends;
};

/// Positions of the labels of values at one point of the x-axis: above the highest, below the lowest, and where there
/// is room between the whiskers of others; empty for a label that has no room.
std::vector<std::string_view> label_positions(const std::vector<Reach>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater{}, [&](std::size_t i) { return shares[i].value; });
  std::vector<std::string_view> positions(shares.size());
  double ceiling = std::numeric_limits<double>::infinity();  // the lowest whisker above, or the lower end of its label
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto [low, high] = shares[order[k]].ends;
    const bool is_lowest = k + 1 == order.size();
    double floor = -std::numeric_limits<double>::infinity();  // the highest whisker below
    for (std::size_t below = k + 1; below < order.size(); ++below)
      floor = std::max(floor, shares[order[below]].ends.high);
    const bool has_above = ceiling - high >= kLabelShare;
    const bool has_below = low >= kLowShare && low - floor >= kLabelShare;
    if (has_above && (k == 0 || !is_lowest || !has_below))
      positions[order[k]] = "top";
    else if (has_below)
      positions[order[k]] = "bottom";
    ceiling = std::min(ceiling, positions[order[k]] == "bottom" ? low - kLabelShare : low);
  }
  return positions;
}

/// The interval of a measurement's time as one of the quantity, which may fall as the time rises.
std::optional<Interval> ends_of(const SweepQuantity& y, double x, const Measurement& m) {
  if (!m.time().interval_ms) return {};
  const auto [low, high] =
      std::minmax({y.of_time(x, m.time().interval_ms->low), y.of_time(x, m.time().interval_ms->high)});
  return Interval{low, high};
}

/// The positions for each line and each of its points.
std::vector<std::vector<std::string_view>> label_positions(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                                           const SweepQuantity& y) {
  const auto value_at = [&](const SweepLine& line, std::size_t i) {
    return y.of_time(sweep.points[i].x, line.at[i]->time().median_ms);
  };
  const auto reach_at = [&](const SweepLine& line, std::size_t i, double most) {
    const double value = value_at(line, i);
    const Interval ends = ends_of(y, sweep.points[i].x, *line.at[i]).value_or(Interval{value, value});
    return Reach{.value = value / most, .ends = {ends.low / most, ends.high / most}};
  };
  double most = 0;
  for (const SweepLine& line : lines)
    for (std::size_t i = 0; i < line.at.size(); ++i)
      if (line.at[i] != nullptr) most = std::max(most, value_at(line, i));
  std::vector<std::vector<std::string_view>> positions(lines.size(),
                                                       std::vector<std::string_view>(sweep.points.size()));
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    std::vector<std::size_t> there;
    std::vector<Reach> shares;
    for (std::size_t line = 0; line < lines.size(); ++line) {
      if (lines[line].at[i] == nullptr) continue;
      there.push_back(line);
      shares.push_back(reach_at(lines[line], i, most > 0 ? most : 1));
    }
    const std::vector<std::string_view> at = label_positions(shares);
    for (std::size_t k = 0; k < there.size(); ++k) positions[there[k]][i] = at[k];
  }
  return positions;
}

}  // namespace

json sweep_option(const Sweep& sweep, const std::vector<SweepLine>& lines, std::string_view x_name,
                  const SweepQuantity& y) {
  json option = base_option();
  option["grid"] = {{"left", 24}, {"right", 48}, {"bottom", 44}, {"containLabel", true}};
  std::vector<std::string> names;
  for (const SweepLine& line : lines) names.push_back(line.label);
  add_legend(option, names, 36);
  option["xAxis"] = sweep_x_axis(sweep, x_name);
  option["yAxis"] = value_axis(y.name, y.axis_fn);
  option["yAxis"].update({{"nameLocation", "end"},
                          {"nameGap", 14},
                          {"nameTextStyle", {{"align", "left"}}},
                          {"min", 0},
                          {"boundaryGap", json::array({0, "8%"})}});
  option["series"] = json::array();
  json texts = json::array();
  const std::vector<std::vector<std::string_view>> positions = label_positions(sweep, lines, y);
  for (const SweepLine& line : lines) {
    const std::vector<std::string_view>& position = positions[static_cast<std::size_t>(&line - lines.data())];
    json items = json::array(), intervals = json::array(), ends = json::array();
    for (std::size_t i = 0; i < line.at.size(); ++i) {
      if (line.at[i] == nullptr) continue;
      const Timing& timing = line.at[i]->time();
      const SweepPoint& point = sweep.points[i];
      const double value = y.of_time(point.x, timing.median_ms);
      Tip tip(point.name.empty() ? fmt::format("{}, {}: {}", line.label, x_name, point.x)
                                 : fmt::format("{}, {}", line.label, point.name));
      tip.row("model", point.scenario->subject.name).row(y.name, exact(value, y.unit)).timing(*line.at[i]);
      items.push_back({{"value", json::array({place_of(sweep, i), value})},
                       {"name", line.label},
                       {"text", y.label ? y.label(value) : label_ms(value)},
                       {"tip", tip.json()}});
      const std::optional<Interval> reach = ends_of(y, point.x, *line.at[i]);
      if (!position[i].empty()) {
        const double end = !reach ? value : position[i] == "top" ? reach->high : reach->low;
        ends.push_back({{"value", json::array({place_of(sweep, i), end})},
                        {"text", items.back()["text"]},
                        {"label", {{"position", position[i]}}}});
      }
      if (line.at[i]->unsettled) items.back()["itemStyle"] = item_style(line.role, true);
      if (reach) intervals.push_back(json::array({place_of(sweep, i), reach->low, reach->high}));
    }
    option["series"].push_back({{"type", "line"},
                                {"name", line.label},
                                {"data", items},
                                {"symbolSize", 9},
                                {"symbol", "circle"},
                                {"lineStyle", {{"width", 2}, {"color", color(line.role)}, {"type", line.dash}}},
                                {"itemStyle", {{"color", color(line.role)}}}});
    option["series"].push_back(line_whiskers(std::move(intervals), line.label, line.role));
    // Invisible points at the ends of whiskers carry the texts.
    texts.push_back({{"type", "scatter"},
                     {"name", line.label},
                     {"silent", true},
                     {"z", 6},
                     {"symbolSize", 9},
                     {"itemStyle", {{"color", "transparent"}}},
                     {"data", std::move(ends)},
                     {"labelLayout", {{"hideOverlap", true}}},
                     {"label", value_label({{"color", color(line.role)}})}});
  }
  for (json& text : texts) option["series"].push_back(std::move(text));
  return option;
}

void fit_sweep(Chart& chart) { chart.height = std::max(chart.height, height_below_legend(chart.option, 280)); }

}  // namespace headroom
