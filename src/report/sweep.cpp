#include "report/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text/format.hpp"
#include "report/image_size.hpp"
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

std::vector<Sweep> sweeps_over_sizes(const Dataset& dataset) {
  std::vector<Sweep> sweeps =
      sweeps_over(dataset, resolution_keys(), [](const Subject& subject) -> std::optional<double> {
        const std::optional<double> pixels = pixels_of(subject), area = pixels ? pixels : image_area_of(subject);
        if (!area) return {};
        const std::optional<ImageSize> size = image_size_of(subject);
        const double width =
            size ? static_cast<double>(size->width) : request_number(subject, "token_columns").value_or(0);
        return *area + 1e-6 * width;
      });
  for (Sweep& sweep : sweeps)
    for (SweepPoint& point : sweep.points) point.name = describe_size(point.scenario->subject);
  return sweeps;
}

std::string_view size_axis_name(const Sweep& sweep) {
  const bool in_pixels = std::ranges::all_of(
      sweep.points, [](const SweepPoint& point) { return is_size_in_pixels(point.scenario->subject); });
  return in_pixels ? "size of an image in pixels" : "size of an image";
}

namespace {

constexpr std::size_t kFew = 3;  // up to this number, all configurations are drawn

bool is_our_baseline(const Measurement& m) { return m.is_baseline(); }
bool is_our_optimized(const Measurement& m) { return !m.is_peer && !m.is_baseline(); }
bool is_of_peer(const Measurement& m) { return m.is_peer; }

const Measurement& first_point_of(const SweepLine& line) {
  return **std::ranges::find_if(line.at, [](const Measurement* m) { return m != nullptr; });
}

std::size_t count_of_ours(const std::vector<SweepLine>& lines) {
  return static_cast<std::size_t>(
      std::ranges::count_if(lines, [](const SweepLine& line) { return is_our_optimized(first_point_of(line)); }));
}

bool is_alike(const Measurement& a, const Measurement& b) {
  return a.label == b.label && a.is_peer == b.is_peer &&
         a.result->configuration.baseline_dtype == b.result->configuration.baseline_dtype;
}

/// The latest measurement at each point with the same requested switches as `like`.
SweepLine line_of(const Sweep& sweep, const Measurement& like) {
  SweepLine line{.label = like.precision ? fmt::format("{} ({})", like.label, *like.precision) : like.label};
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
std::vector<SweepLine> lines_where(const Sweep& sweep, bool (*is_wanted)(const Measurement&)) {
  std::vector<SweepLine> lines;
  for (auto point = sweep.points.rbegin(); point != sweep.points.rend(); ++point) {
    std::vector<const Measurement*> measured;
    for (const Measurement* m : point->scenario->current)
      if (m->timing && is_wanted(*m)) measured.push_back(m);
    std::ranges::stable_sort(measured, {}, [](const Measurement* m) { return m->time().median_ms; });
    for (const Measurement* m : measured) {
      SweepLine line = line_of(sweep, *m);
      const bool is_new = std::ranges::none_of(lines, [&](const SweepLine& other) { return other.at == line.at; });
      if (is_new && std::ssize(line.at) - std::ranges::count(line.at, nullptr) >= 2) lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace

std::vector<SweepLine> all_lines_of(const Sweep& sweep) {
  std::vector<SweepLine> lines;
  for (const auto& is_wanted : {is_our_baseline, is_our_optimized, is_of_peer})
    std::ranges::move(lines_where(sweep, is_wanted), std::back_inserter(lines));
  return lines;
}

std::vector<SweepLine> lines_of(const Sweep& sweep) {
  std::vector<SweepLine> lines = all_lines_of(sweep);
  keep_first_of_ours(lines, count_of_ours(lines) > kFew ? 1 : kFew);
  tell_lines_apart(lines);
  return lines;
}

void keep_first_of_ours(std::vector<SweepLine>& lines, std::size_t most) {
  std::size_t seen = 0;
  std::erase_if(lines, [&](const SweepLine& line) { return is_our_optimized(first_point_of(line)) && ++seen > most; });
}

void tell_lines_apart(std::vector<SweepLine>& lines) {
  static constexpr std::string_view kOurRoles[] = {"orange", "blue", "gold"};
  static constexpr std::string_view kPeerRoles[] = {"purple", "green", "sky"};
  static constexpr std::string_view kDashes[] = {"solid", "dashed", "dotted"};
  std::size_t ours = 0, peers = 0;
  std::map<std::string_view, std::size_t> of_role;
  for (SweepLine& line : lines) {
    const Measurement& m = first_point_of(line);
    line.role = is_of_peer(m)         ? kPeerRoles[peers++ % std::size(kPeerRoles)]
                : is_our_optimized(m) ? kOurRoles[ours++ % std::size(kOurRoles)]
                                      : "base";
    line.dash = kDashes[of_role[line.role]++ % std::size(kDashes)];
  }
}

std::vector<std::string> notes_on_places(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                         std::string_view place) {
  std::vector<std::string> notes;
  if (const std::size_t all = count_of_ours(all_lines_of(sweep)), drawn = count_of_ours(lines); all > drawn)
    notes.push_back(fmt::format("{} {} in the table of measurements.",
                                format_count(static_cast<std::int64_t>(all - drawn), "more configuration"),
                                all - drawn == 1 ? "is" : "are"));
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

std::vector<std::string> notes_on(const Sweep& sweep, const std::vector<SweepLine>& lines, std::string_view place) {
  std::vector<std::string> notes;
  note_whiskers(notes, measurements_of(lines));
  std::ranges::move(notes_on_places(sweep, lines, place), std::back_inserter(notes));
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

constexpr double kLabelShare = 0.11;  // height of a label and its distance from the point, as a share of the axis
constexpr double kLowShare = 0.15;    // a value below this share of the axis has no room for a label below it
constexpr double kClear = 1.6;        // room for a label between two values, so that it is nearest to its own

/// A value with the ends of its whisker, as shares of the axis.
struct Reach {
  double value = 0;
  Interval ends;
  bool has_label = true;  ///< false: another line passes there, without a point
};

/// Positions of the labels of values at one point of the x-axis: above the highest, below the lowest, and where there
/// is room between the whiskers and lines of others; empty for a label that has no room.
std::vector<std::string_view> label_positions(const std::vector<Reach>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::ranges::greater{}, [&](std::size_t i) { return shares[i].value; });
  std::vector<std::string_view> positions(shares.size());
  double ceiling = std::numeric_limits<double>::infinity();  // the lowest whisker above, or the lower end of its label
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto& [value, ends, has_label] = shares[order[k]];
    const auto [low, high] = ends;
    const bool is_lowest = k + 1 == order.size();
    double floor = -std::numeric_limits<double>::infinity();  // the highest whisker below
    for (std::size_t below = k + 1; below < order.size(); ++below)
      floor = std::max(floor, shares[order[below]].ends.high);
    const bool has_above = ceiling - high >= kClear * kLabelShare;
    const bool has_below = low >= kLowShare && low - floor >= kClear * kLabelShare;
    if (has_label && has_above && (k == 0 || !is_lowest || !has_below))
      positions[order[k]] = "top";
    else if (has_label && has_below)
      positions[order[k]] = "bottom";
    ceiling = std::min(ceiling, positions[order[k]] == "bottom" ? low - kLabelShare : low);
  }
  return positions;
}

/// The height of a line over a point at which it has no measurement, if it passes there.
std::optional<double> height_between(const Sweep& sweep, const std::vector<std::optional<Estimate>>& values,
                                     std::size_t at) {
  const auto place = [&](std::size_t i) {
    return sweep.points[i].name.empty() ? sweep.points[i].x : static_cast<double>(i);
  };
  std::size_t before = at, after = at;
  while (before > 0 && !values[before]) --before;
  while (after + 1 < values.size() && !values[after]) ++after;
  if (!values[before] || !values[after]) return {};
  const double share = (place(at) - place(before)) / (place(after) - place(before));
  return values[before]->value + share * (values[after]->value - values[before]->value);
}

/// Converts values to shares of the axis of values, which begins at zero or, if it is logarithmic, at a power of ten.
class AxisShare {
 public:
  AxisShare(double least, double most, bool is_logarithmic) : most_(most > 0 ? most : 1) {
    if (!is_logarithmic || !(least > 0)) return;
    begin_ = std::floor(std::log10(least));
    decades_ = std::max(1.0, std::ceil(std::log10(most_)) - begin_);
  }
  [[nodiscard]] double of(double value) const {
    if (decades_ == 0) return value / most_;
    return value > 0 ? (std::log10(value) - begin_) / decades_ : 0;
  }

 private:
  double most_, begin_ = 0, decades_ = 0;
};

/// The positions for each line and each of its points. `values` are those of each line at each point.
std::vector<std::vector<std::string_view>> label_positions(
    const Sweep& sweep, const std::vector<std::vector<std::optional<Estimate>>>& values, bool is_logarithmic) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const auto& line : values)
    for (const std::optional<Estimate>& one : line) {
      if (!one) continue;
      least = std::min(least, one->interval ? one->interval->low : one->value);
      most = std::max(most, one->interval ? one->interval->high : one->value);
    }
  const AxisShare share(least, most, is_logarithmic);
  std::vector<std::vector<std::string_view>> positions(values.size(),
                                                       std::vector<std::string_view>(sweep.points.size()));
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    std::vector<std::size_t> there;
    std::vector<Reach> shares;
    for (std::size_t line = 0; line < values.size(); ++line) {
      const std::optional<Estimate>& one = values[line][i];
      const std::optional<double> value = one ? one->value : height_between(sweep, values[line], i);
      if (!value) continue;
      const Interval ends = one && one->interval ? *one->interval : Interval{*value, *value};
      there.push_back(line);
      shares.push_back(
          {.value = share.of(*value), .ends = {share.of(ends.low), share.of(ends.high)}, .has_label = one.has_value()});
    }
    const std::vector<std::string_view> at = label_positions(shares);
    for (std::size_t k = 0; k < there.size(); ++k) positions[there[k]][i] = at[k];
  }
  return positions;
}

std::vector<std::vector<std::optional<Estimate>>> estimates_of(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                                               const SweepQuantity& y) {
  std::vector<std::vector<std::optional<Estimate>>> values;
  for (const SweepLine& line : lines) {
    std::vector<std::optional<Estimate>>& of_line = values.emplace_back(line.at.size());
    for (std::size_t i = 0; i < line.at.size(); ++i)
      if (line.at[i] != nullptr) of_line[i] = y.of(sweep.points[i], *line.at[i]);
  }
  return values;
}

void make_logarithmic(json& axis) {
  axis["type"] = "log";
  axis.erase("min");
  axis.erase("boundaryGap");
  axis.erase("minInterval");
  axis["minorSplitLine"] = {{"show", true}, {"lineStyle", {{"color", color("line")}, {"opacity", 0.6}}}};
}

}  // namespace

SweepQuantity::Of from_time(const std::function<double(double x, double ms)>& of_time) {
  return [of_time](const SweepPoint& point, const Measurement& m) {
    const auto value_of = [&](double ms) { return of_time ? of_time(point.x, ms) : ms; };
    Estimate estimate{.value = value_of(m.time().median_ms), .interval = {}};
    if (const std::optional<Interval>& times = m.time().interval_ms) {
      const auto [low, high] = std::minmax({value_of(times->low), value_of(times->high)});  // may fall as time rises
      estimate.interval = Interval{low, high};
    }
    return estimate;
  };
}

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
  const std::vector<std::vector<std::optional<Estimate>>> values = estimates_of(sweep, lines, y);
  const std::vector<std::vector<std::string_view>> positions = label_positions(sweep, values, y.is_logarithmic);
  for (const SweepLine& line : lines) {
    const auto index = static_cast<std::size_t>(&line - lines.data());
    json items = json::array(), intervals = json::array(), ends = json::array();
    for (std::size_t i = 0; i < line.at.size(); ++i) {
      if (line.at[i] == nullptr) continue;
      const SweepPoint& point = sweep.points[i];
      const auto& [value, interval] = *values[index][i];
      Tip tip(point.name.empty() ? fmt::format("{}, {}: {}", line.label, x_name, point.x)
                                 : fmt::format("{}, {}", line.label, point.name));
      tip.row("model", point.scenario->subject.name).row(y.name, exact(value, y.unit));
      if (y.needs_interval) tip.row("95% interval of it", interval ? exact(*interval, y.unit) : "none");
      tip.timing(*line.at[i]);
      items.push_back({{"value", json::array({place_of(sweep, i), value})},
                       {"name", line.label},
                       {"text", y.label ? y.label(value) : label_ms(value)},
                       {"tip", tip.json()}});
      if (const std::string_view position = positions[index][i]; !position.empty()) {
        const double end = !interval ? value : position == "top" ? interval->high : interval->low;
        json label = {{"position", position}};
        // That of the first name begins at its point: in a narrow picture it would cover labels of the y-axis.
        if (i == 0 && !point.name.empty()) label.update({{"align", "left"}, {"offset", json::array({-8, 0})}});
        ends.push_back({{"value", json::array({place_of(sweep, i), end})},
                        {"text", items.back()["text"]},
                        {"label", std::move(label)}});
      }
      if (line.at[i]->unsettled || (y.needs_interval && !interval))
        items.back()["itemStyle"] = item_style(line.role, true);
      if (interval) intervals.push_back(json::array({place_of(sweep, i), interval->low, interval->high}));
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
  if (y.is_logarithmic)
    for (const char* const axis : {"xAxis", "yAxis"}) make_logarithmic(option[axis]);
  return option;
}

void fit_sweep(Chart& chart) { chart.height = std::max(chart.height, height_below_legend(chart.option, 280)); }

}  // namespace headroom
