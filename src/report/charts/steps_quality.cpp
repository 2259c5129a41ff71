// Quality and time against the number of steps. Two numbers of steps are marked: for drafts and for final images.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "base/text/format.hpp"
#include "measure/protocol/ladder_rounds.hpp"
#include "report/advice/quality_loss.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

/// A metric by which numbers of steps are judged, and the loss that a draft may have.
struct StepMetric {
  std::string_view name;
  std::string_view title;
  std::string_view axis_fn;
  bool more_is_better;
  double draft_loss;             ///< absolute for more_is_better, else relative
  std::string_view draft_limit;  ///< in words
};
constexpr StepMetric kStepMetrics[] = {
    {"frechet_distance", "Fréchet distance", "axis_plain", false, 1.0, "at most twice the Fréchet distance"},
    {"accuracy", "accuracy", "axis_percent", true, 0.05, "at most 5 percentage points of accuracy lost"},
};

struct StepPoint {
  double steps = 0;
  const Measurement* measurement = nullptr;
  double quality = 0;
  std::optional<Interval> interval;
};

/// Measurements that differ only in the number of steps: equal model, rest of the request, machine, other switches
/// and reference of the metric.
struct StepLine {
  std::string work;
  std::string configuration;
  std::string against;
  std::vector<StepPoint> points;  ///< by steps, each number once
};

bool is_steps_switch(const std::string& name) { return name.starts_with("steps="); }

std::vector<std::string> switches_but_steps(const Measurement& m) {
  std::vector<std::string> rest;
  std::ranges::copy_if(m.result->configuration.applied, std::back_inserter(rest),
                       [](const std::string& name) { return !is_steps_switch(name); });
  return rest;
}

/// The label of a measurement without its number of steps: "baseline" if nothing else is on.
std::string label_but_steps(std::string label) {
  const std::size_t at = label.find("steps=");
  if (at == std::string::npos) return label;
  const std::size_t end = std::min(label.find('+', at), label.size());
  label.erase(at, end - at + (end < label.size() ? 1 : 0));
  if (label.ends_with('+')) label.pop_back();
  return label.empty() ? "baseline" : label;
}

std::vector<StepLine> step_lines_of(const Dataset& dataset, const StepMetric& metric) {
  std::map<std::string, StepLine> lines;
  for (const Scenario& scenario : dataset.scenarios()) {
    if (!request_number(scenario.subject, "steps")) continue;
    Subject rest = scenario.subject;
    rest.request.erase("steps");
    for (const Measurement* m : scenario.current) {
      const QualityRecord* const record = find_quality(*m->result, metric.name);
      if (m->is_peer || !m->timing || m->time().unit != "image" || record == nullptr || !record->value) continue;
      const std::vector<std::string> others = switches_but_steps(*m);
      StepLine& line = lines[fmt::format("{}|{}|{}|{}|{}|{}", rest.name, rest.request.dump(), scenario.hardware,
                                         fmt::join(others, "+"), m->result->configuration.baseline_dtype.value_or(""),
                                         record->against)];
      line.work = fmt::format("{}; {}", describe_work(rest), scenario.hardware);
      line.configuration = label_but_steps(m->label);
      line.against = record->against;
      const StepPoint point{
          .steps = steps_run(*m->result), .measurement = m, .quality = *record->value, .interval = record->interval};
      const auto same = std::ranges::find(line.points, point.steps, &StepPoint::steps);
      if (same == line.points.end())
        line.points.push_back(point);
      else if (point.interval && !same->interval)
        *same = point;
    }
  }
  std::vector<StepLine> found;
  for (auto& [key, line] : lines) {
    if (line.points.size() < 2) continue;
    std::ranges::sort(line.points, {}, &StepPoint::steps);
    found.push_back(std::move(line));
  }
  return found;
}

/// Two recommended numbers of steps of a line, by the ends of the intervals.
struct StepAdvice {
  const StepPoint* best = nullptr;       ///< best score
  const StepPoint* for_final = nullptr;  ///< fewest steps that are not certainly worse than the best
  const StepPoint* for_draft = nullptr;  ///< fewest steps that certainly keep the draft limit against it; may be null
};

/// Empty if a point has no interval, since no difference is then significant.
std::optional<StepAdvice> steps_advice(const StepLine& line, const StepMetric& metric) {
  if (!std::ranges::all_of(line.points, [](const StepPoint& point) { return point.interval.has_value(); })) return {};
  const auto is_better = [&](const StepPoint& a, const StepPoint& b) {
    return metric.more_is_better ? a.quality > b.quality : a.quality < b.quality;
  };
  StepAdvice advice{.best = &line.points.front(), .for_final = nullptr, .for_draft = nullptr};
  for (const StepPoint& point : line.points)
    if (is_better(point, *advice.best)) advice.best = &point;
  const auto is_certainly_worse = [&](const StepPoint& point) {
    return metric.more_is_better ? point.interval->high < advice.best->interval->low
                                 : point.interval->low > advice.best->interval->high;
  };
  for (const StepPoint& point : line.points)
    if (advice.for_final == nullptr && !is_certainly_worse(point)) advice.for_final = &point;
  const auto keeps_limit = [&](const StepPoint& point) {
    return metric.more_is_better ? point.interval->low >= advice.for_final->quality - metric.draft_loss
                                 : point.interval->high <= advice.for_final->quality * (1 + metric.draft_loss);
  };
  for (const StepPoint& point : line.points)
    if (advice.for_draft == nullptr && point.steps < advice.for_final->steps && keeps_limit(point))
      advice.for_draft = &point;
  return advice;
}

std::string steps_text(const StepPoint& point) { return format_count(static_cast<std::int64_t>(point.steps), "step"); }

/// `fewest` is the least number of steps that was measured.
std::vector<std::string> advice_notes(const std::optional<StepAdvice>& advice, double fewest,
                                      const StepMetric& metric) {
  if (!advice)
    return {
        "No number of steps is marked: a point has no interval (hollow), so no difference between points is "
        "significant. "
        "`headroom ladder --quality 500` measures intervals."};
  std::vector<std::string> notes;
  if (advice->for_final->steps == fewest) {
    notes.push_back(
        advice->for_final == advice->best
            ? fmt::format("Final: {}, which scores best; fewer were not measured.", steps_text(*advice->best))
            : fmt::format("Final: {}, the fewest that were measured. The intervals do not tell it apart from "
                          "{}, which scores best.",
                          steps_text(*advice->for_final), steps_text(*advice->best)));
    return notes;
  }
  const bool is_certain = advice->for_final == advice->best;
  notes.push_back(is_certain ? fmt::format("Final: {}, which scores best; fewer steps are certainly worse.",
                                           steps_text(*advice->best))
                             : fmt::format("Final: {}. The intervals do not tell it apart from {}, which scores best.",
                                           steps_text(*advice->for_final), steps_text(*advice->best)));
  notes.push_back(advice->for_draft != nullptr ? fmt::format("Draft: {}, {}, with 95% confidence.",
                                                             steps_text(*advice->for_draft), metric.draft_limit)
                                               : fmt::format("Draft: none below {} keeps the limit for certain ({}).",
                                                             steps_text(*advice->for_final), metric.draft_limit));
  return notes;
}

json step_item(const StepPoint& point, double value, const std::string& text, const StepMetric& metric) {
  Tip tip(steps_text(point));
  tip.row(metric.name, exact(point.quality, ""));
  tip.row("95% interval of it", point.interval ? exact(*point.interval, "") : "none in the result");
  tip.timing(*point.measurement);
  return {{"value", json::array({point.steps, value})}, {"text", text}, {"tip", tip.json()}};
}

constexpr std::string_view kTime = "time per image";
constexpr double kRoom = 0.25;  // above the highest whisker, for its text, as a share of the range

/// The lowest and the highest end of the qualities.
Interval range_of(const StepLine& line) {
  Interval range{line.points.front().quality, line.points.front().quality};
  for (const StepPoint& point : line.points) {
    const Interval ends = point.interval.value_or(Interval{point.quality, point.quality});
    range = {std::min(range.low, ends.low), std::max(range.high, ends.high)};
  }
  return range;
}

/// Invisible points that carry the texts of a line's `items` above their whiskers.
json texts_above(std::string_view line, const json& items, const std::vector<std::optional<Interval>>& intervals,
                 int grid) {
  json ends = json::array();
  for (std::size_t i = 0; i < items.size(); ++i) {
    json place = items[i]["value"];
    if (intervals[i]) place[1] = std::max(place[1].get<double>(), intervals[i]->high);
    ends.push_back({{"value", std::move(place)}, {"text", items[i]["text"]}});
  }
  return {{"type", "scatter"},
          {"name", line},
          {"xAxisIndex", grid},
          {"yAxisIndex", grid},
          {"silent", true},
          {"z", 7},
          {"symbolSize", 10},
          {"itemStyle", {{"color", "transparent"}}},
          {"data", std::move(ends)},
          {"labelLayout", {{"hideOverlap", true}}},
          {"label", value_label({{"position", "top"}})}};
}

json draw_steps(const StepLine& line, const StepMetric& metric, const std::optional<StepAdvice>& advice) {
  json quality = json::array(), quality_whiskers = json::array(), times = json::array(), time_whiskers = json::array();
  std::vector<std::optional<Interval>> of_quality, of_time;
  for (const StepPoint& point : line.points) {
    const bool is_percent = metric.axis_fn == "axis_percent";
    std::string text = is_percent ? fmt::format("{:.1f}%", 100 * point.quality) : format_significant(point.quality);
    const bool is_final = advice && &point == advice->for_final, is_draft = advice && &point == advice->for_draft;
    if (is_final) text += "  final";
    if (is_draft) text += "  draft";
    quality.push_back(step_item(point, point.quality, text, metric));
    const std::string_view role = is_final ? "orange" : is_draft ? "green" : "blue";
    quality.back()["itemStyle"] = {{"color", color(role)}, {"opacity", 1}};
    if (is_final || is_draft) quality.back()["symbolSize"] = 16;
    if (!point.interval)
      quality.back()["itemStyle"].update({{"color", color("panel")}, {"borderColor", color(role)}, {"borderWidth", 2}});
    if (point.interval)
      quality_whiskers.push_back(json::array({point.steps, point.interval->low, point.interval->high}));
    const Timing& timing = point.measurement->time();
    times.push_back(step_item(point, timing.median_ms, label_ms(timing.median_ms), metric));
    if (point.measurement->unsettled)
      times.back()["itemStyle"] = {{"color", color("panel")}, {"borderColor", color("base")}, {"borderWidth", 2}};
    of_quality.push_back(point.interval);
    of_time.push_back(timing.interval_ms);
    if (timing.interval_ms)
      time_whiskers.push_back(json::array({point.steps, timing.interval_ms->low, timing.interval_ms->high}));
  }
  json option = base_option();
  const double most = line.points.back().steps;
  option["legend"] = {{"top", 0}, {"left", 0}, {"data", json::array({metric.title, kTime})}};
  option["grid"] = json::array({{{"left", 72}, {"right", 40}, {"top", 64}, {"height", "32%"}},
                                {{"left", 72}, {"right", 40}, {"top", "58%"}, {"bottom", 48}}});
  const auto steps_axis = [&](int grid, std::string_view name) {
    json axis = value_axis(name, "axis_plain");
    axis.update({{"gridIndex", grid},
                 {"min", 0},
                 {"max", most * 1.15},
                 {"axisLabel", {{"formatter", fn("axis_plain")}, {"showMaxLabel", false}}}});
    return axis;
  };
  option["xAxis"] = json::array({steps_axis(0, ""), steps_axis(1, "steps")});
  const auto values_axis = [&](int grid, std::string_view name, std::string_view axis_fn) {
    json axis = value_axis(name, axis_fn);
    axis.update({{"gridIndex", grid},
                 {"splitNumber", 4},
                 {"boundaryGap", json::array({0, "25%"})},
                 {"nameLocation", "end"},
                 {"nameGap", 10},
                 {"nameTextStyle", {{"align", "left"}}}});
    return axis;
  };
  option["yAxis"] = json::array({values_axis(0, metric.title, metric.axis_fn), values_axis(1, kTime, "axis_ms")});
  if (metric.more_is_better) {
    option["yAxis"][0]["scale"] = true;
    const auto [least, best] = range_of(line);
    if (best + kRoom * (best - least) > 1) option["yAxis"][0]["max"] = 1;  // a share
  } else {
    option["yAxis"][0]["min"] = 0;
  }
  option["yAxis"][1]["min"] = 0;
  const auto line_of = [](std::string_view name, json data, std::string_view role, int grid) {
    return json{{"type", "line"},
                {"name", name},
                {"xAxisIndex", grid},
                {"yAxisIndex", grid},
                {"data", std::move(data)},
                {"symbol", "circle"},
                {"symbolSize", 10},
                {"z", 6},
                {"lineStyle", {{"width", 2}, {"color", color(role)}}},
                {"itemStyle", {{"color", color(role)}}}};
  };
  const auto whiskers_of = [](json intervals, int grid) {
    json whiskers = vertical_whiskers(std::move(intervals));
    whiskers.update({{"xAxisIndex", grid}, {"yAxisIndex", grid}, {"z", 5}});
    return whiskers;
  };
  option["series"] =
      json::array({line_of(metric.title, quality, "blue", 0), whiskers_of(quality_whiskers, 0),
                   line_of(kTime, times, "base", 1), whiskers_of(time_whiskers, 1),
                   texts_above(metric.title, quality, of_quality, 0), texts_above(kTime, times, of_time, 1)});
  return option;
}

}  // namespace

Drawn steps_quality(const Dataset& dataset) {
  Drawn drawn;
  for (const StepMetric& metric : kStepMetrics)
    for (const StepLine& line : step_lines_of(dataset, metric)) {
      const std::optional<StepAdvice> advice = steps_advice(line, metric);
      std::vector<const Measurement*> shown;
      for (const StepPoint& point : line.points) shown.push_back(point.measurement);
      Chart chart{.file = numbered("steps_quality", drawn.charts.size()),
                  .title = fmt::format("{} and time against the number of steps",
                                       metric.more_is_better ? "Accuracy" : metric.title),
                  .subtitle = fmt::format("{}, {}", line.configuration, line.work),
                  .of = dataset.scenarios_of(shown),
                  .option = draw_steps(line, metric, advice),
                  .notes = advice_notes(advice, line.points.front().steps, metric),
                  .height = 520,
                  .variant = fmt::format("{} {}", metric.name, line.configuration)};
      chart.notes.push_back(fmt::format("Held against: {}. {} is better. Whiskers are 95% intervals.", line.against,
                                        metric.more_is_better ? "Higher" : "Lower"));
      note_few_images(chart.notes, shown, metric.name);
      note_unsettled(chart.notes, shown);
      note_revisions(chart.notes, shown);
      drawn.charts.push_back(std::move(chart));
    }
  drawn.left_out =
      "no configuration was timed and judged at two numbers of steps (headroom ladder --quality 500 --opt steps=14)";
  return drawn;
}

}  // namespace headroom::charts
