// Time of one configuration over revisions, and its change points.

#include "measure/gates/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/format.hpp"
#include "measure/tables/table.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

struct Track {
  std::string label;
  std::string unit;
  std::vector<HistoryPoint> points;      // one for each revision
  std::vector<const Measurement*> only;  // the measurement of a point; null if it was measured more than once
  std::vector<std::string> unsettled;    // of each point, the reason; empty if a run of it is settled
  std::vector<ChangePoint> steps;
};

constexpr std::size_t kFewestRevisions = 4;  // revisions; for fewer the table suffices

/// The reason of the first if all runs at the revision are unsettled, else empty.
std::string why_unsettled_at(const std::string& revision, const std::vector<const Measurement*>& measured) {
  std::string why;
  for (const Measurement* m : measured) {
    if (m->revision() != revision) continue;
    if (!m->unsettled) return {};
    if (why.empty()) why = *m->unsettled;
  }
  return why;
}

/// The configurations measured at `kFewestRevisions` revisions or more.
std::vector<Track> tracks_of(const Scenario& scenario) {
  std::map<std::pair<std::string, std::string>, std::vector<const Measurement*>> by_configuration;
  for (const Measurement* m : scenario.all)
    if (!m->is_peer && m->timing)
      by_configuration[{m->label, m->result->configuration.baseline_dtype.value_or("")}].push_back(m);
  std::vector<Track> tracks;
  for (const auto& [configuration, measured] : by_configuration) {
    std::vector<HistoryPoint> runs;
    for (const Measurement* m : measured)
      runs.push_back({.created = m->file->created, .revision = m->revision(), .median_ms = m->time().median_ms});
    Track track{.label = configuration.first,
                .unit = measured.front()->time().unit,
                .points = merge_revisions(runs),
                .only = {},
                .unsettled = {},
                .steps = {}};
    if (track.points.size() < kFewestRevisions) continue;
    for (const HistoryPoint& point : track.points) {
      track.only.push_back(point.runs > 1 ? nullptr
                                          : *std::ranges::find(measured, point.revision, &Measurement::revision));
      track.unsettled.push_back(why_unsettled_at(point.revision, measured));
    }
    track.steps = find_time_steps(track.points);
    tracks.push_back(std::move(track));
  }
  return tracks;
}

/// Twelve digits, and whether the tree was dirty, since that is a different program from the clean revision.
std::string short_revision(const std::string& revision) {
  constexpr std::string_view kDirty = "-dirty";
  constexpr std::size_t kDigits = 12;
  if (!revision.ends_with(kDirty)) return revision.substr(0, kDigits);
  return revision.substr(0, std::min(kDigits, revision.size() - kDirty.size())) + std::string(kDirty);
}

/// The level of the times between change points: a line that jumps at each.
json levels_of(const Track& track) {
  json levels = json::array();
  for (std::size_t i = 0; i < track.points.size(); ++i) {
    double level_ms = track.steps.empty() ? 0 : track.steps.front().before;
    for (const ChangePoint& step : track.steps)
      if (step.index <= i) level_ms = step.after;
    levels.push_back(track.steps.empty() ? json("-") : json(level_ms));
  }
  return levels;
}

json draw(const Track& track) {
  std::vector<std::string> names;
  json items = json::array(), intervals = json::array(), texts = json::array();
  for (std::size_t place = 0; place < track.points.size(); ++place) {
    const HistoryPoint& point = track.points[place];
    const Measurement* const m = track.only[place];
    const double ms = point.median_ms;
    const auto step = std::ranges::find(track.steps, place, &ChangePoint::index);
    const bool stepped = step != track.steps.end();
    const bool is_faster = stepped && step->after < step->before;
    Tip tip(fmt::format("{} at {}", track.label, point.revision));
    tip.row("measured", point.created);
    if (m != nullptr)
      tip.timing(*m);
    else
      tip.row(fmt::format("median of {} runs", point.runs), exact(ms, "ms"));
    constexpr std::size_t kFew = 10;
    std::string text;
    if (track.points.size() <= kFew || place == 0 || place + 1 == track.points.size()) text = label_ms(ms);
    if (stepped) {
      tip.row("level before", exact(step->before, "ms"))
          .row("level from here on", exact(step->after, "ms"))
          .row("p", format_p(step->p));
      text = fmt::format("{}\n{:+.1f}%", label_ms(ms), 100 * (step->after / step->before - 1));
    }
    names.push_back(short_revision(point.revision));
    items.push_back({{"value", ms},
                     {"text", text},
                     {"tip", tip.json()},
                     {"symbolSize", stepped ? 14 : 8},
                     {"itemStyle", item_style(is_faster ? "green"
                                              : stepped ? "purple"
                                                        : "base",
                                              !track.unsettled[place].empty())}});
    const std::optional<Interval> interval = m == nullptr ? std::nullopt : m->time().interval_ms;
    if (interval) intervals.push_back(json::array({place, interval->low, interval->high}));
    const double end = !interval ? ms : is_faster ? interval->low : interval->high;
    texts.push_back({{"value", json::array({place, end})},
                     {"text", text},
                     // on the side where the line did not come from
                     {"label", {{"position", is_faster ? "bottom" : "top"}}}});
  }
  json option = base_option();
  option["grid"] = {{"left", 40}, {"right", 40}, {"top", 50}, {"bottom", 60}, {"containLabel", true}};
  option["xAxis"] = {{"type", "category"}, {"data", names},
                     {"name", "revision"}, {"nameLocation", "middle"},
                     {"nameGap", 90},      {"axisLabel", {{"rotate", 30}, {"hideOverlap", true}}}};
  option["yAxis"] = value_axis(fmt::format("time per {}", track.unit), "axis_ms");
  option["yAxis"].update({{"min", 0},
                          {"boundaryGap", json::array({0, "12%"})},  // for texts
                          {"nameLocation", "end"},
                          {"nameGap", 12},
                          {"nameTextStyle", {{"align", "left"}}}});
  // In a low plot texts of the highest points are placed above it, and the axis's name above them.
  narrow_option(option) = {{"grid", {{"top", 72}}}, {"yAxis", {{"nameGap", 36}}}};
  option["series"] =
      json::array({{{"type", "line"}, {"data", items}, {"symbol", "circle"}, {"lineStyle", {{"color", color("base")}}}},
                   vertical_whiskers(std::move(intervals)),
                   {{"type", "line"},
                    {"silent", true},
                    {"data", levels_of(track)},
                    {"step", "end"},
                    {"symbol", "none"},
                    {"lineStyle", {{"color", color("orange")}, {"type", "dashed"}}}},
                   // Invisible points at the ends of whiskers carry the texts.
                   {{"type", "scatter"},
                    {"silent", true},
                    {"z", 6},
                    {"symbolSize", 8},
                    {"itemStyle", {{"color", "transparent"}}},
                    {"data", std::move(texts)},
                    {"labelLayout", {{"hideOverlap", true}}},
                    {"label", value_label({{"lineHeight", 15}})}}});
  return option;
}

}  // namespace

Drawn history(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios())
    for (const Track& track : tracks_of(scenario)) {
      drawn.charts.push_back(
          {.file = numbered("history", drawn.charts.size()),
           .title = fmt::format("{} over revisions", track.label),
           .subtitle = subtitle_of(scenario),
           .of = {&scenario},
           .option = draw(track),
           .notes = {fmt::format(
                         "{} found (E-divisive with means, p at most 5%; fewer than 8 points cannot show "
                         "one). Green is faster, purple slower; the dashed line is the level from step to step.",
                         track.steps.empty() ? "No step" : format_count(std::ssize(track.steps), "step")),
                     "A point is a revision: the median of its runs, with a whisker where there is one.",
                     "Measured one after the other, not side by side: a machine's own drift counts as a step."},
           .variant = track.label});
      if (const auto why = std::ranges::find_if_not(track.unsettled, &std::string::empty); why != track.unsettled.end())
        drawn.charts.back().notes.push_back(
            fmt::format("Hollow points are unsettled ({} of {}: {}).",
                        std::ranges::count_if(track.unsettled, [](const std::string& one) { return !one.empty(); }),
                        track.unsettled.size(), *why));
    }
  drawn.left_out = "no configuration was measured at four revisions or more, on the same machine and the same work";
  return drawn;
}

}  // namespace headroom::charts
