// Time of one configuration over revisions, and where it stepped.

#include "measure/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/format.hpp"
#include "report/charts/charts.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

std::string revision_of(const Measurement& m) {
  return m.file->machine.build ? m.file->machine.build->git_revision : "unknown";
}

struct Track {
  std::string label;
  std::vector<const Measurement*> points;  // by time of measurement
  std::vector<ChangePoint> steps;
};

/// The configurations measured at two revisions or more, and three times.
std::vector<Track> tracks_of(const Scenario& scenario) {
  std::map<std::string, Track> by_label;
  for (const Measurement* m : scenario.all) {
    if (m->is_peer || !m->timing) continue;
    Track& track = by_label[m->label];
    track.label = m->label;
    track.points.push_back(m);
  }
  std::vector<Track> tracks;
  for (auto& [label, track] : by_label) {
    std::set<std::string> revisions;
    std::vector<double> medians_ms;
    for (const Measurement* m : track.points) {
      revisions.insert(revision_of(*m));
      medians_ms.push_back(m->time().median_ms);
    }
    if (revisions.size() < 2 || track.points.size() < 3) continue;
    track.steps = find_time_steps(medians_ms);
    tracks.push_back(std::move(track));
  }
  return tracks;
}

/// The level of the times from step to step: a line that jumps at each.
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
  json items = json::array(), intervals = json::array();
  for (const Measurement* m : track.points) {
    const double ms = m->time().median_ms;
    const std::size_t place = names.size();
    const auto step = std::ranges::find(track.steps, place, &ChangePoint::index);
    const bool stepped = step != track.steps.end();
    const bool is_faster = stepped && step->after < step->before;
    Tip tip(fmt::format("{} at {}", track.label, revision_of(*m)));
    tip.row("measured", m->file->created).timing(*m);
    constexpr std::size_t kFew = 10;
    std::string text;
    if (track.points.size() <= kFew || place == 0 || place + 1 == track.points.size()) text = label_ms(ms);
    if (stepped) {
      tip.row("level before", exact(step->before, "ms"))
          .row("level from here on", exact(step->after, "ms"))
          .row("p", fmt::format("{:.3g}", step->p));
      text = fmt::format("{}\n{:+.1f}%", label_ms(ms), 100 * (step->after / step->before - 1));
    }
    names.push_back(revision_of(*m).substr(0, 12));
    items.push_back({{"value", ms},
                     {"text", text},
                     {"tip", tip.json()},
                     {"symbolSize", stepped ? 14 : 8},
                     {"label", {{"position", is_faster ? "bottom" : "top"}}},  // where the line did not come from
                     {"itemStyle",
                      {{"color", color(is_faster ? "green"
                                       : stepped ? "purple"
                                                 : "base")}}}});
    if (m->time().interval_ms)
      intervals.push_back(json::array({place, m->time().interval_ms->low, m->time().interval_ms->high}));
  }
  json option = base_option();
  option["grid"] = {{"left", 40}, {"right", 40}, {"top", 50}, {"bottom", 60}, {"containLabel", true}};
  option["xAxis"] = {{"type", "category"}, {"data", names},
                     {"name", "revision"}, {"nameLocation", "middle"},
                     {"nameGap", 60},      {"axisLabel", {{"rotate", 30}, {"hideOverlap", true}}}};
  option["yAxis"] = value_axis(fmt::format("time per {}", track.points.front()->time().unit), "axis_ms");
  option["yAxis"].update(
      {{"min", 0}, {"nameLocation", "end"}, {"nameGap", 12}, {"nameTextStyle", {{"align", "left"}}}});
  option["series"] = json::array({{{"type", "line"},
                                   {"data", items},
                                   {"symbol", "circle"},
                                   {"lineStyle", {{"color", color("base")}}},
                                   {"labelLayout", {{"hideOverlap", true}}},
                                   {"label", value_label({{"position", "top"}, {"lineHeight", 15}})}},
                                  vertical_whiskers(std::move(intervals)),
                                  {{"type", "line"},
                                   {"silent", true},
                                   {"data", levels_of(track)},
                                   {"step", "end"},
                                   {"symbol", "none"},
                                   {"lineStyle", {{"color", color("orange")}, {"type", "dashed"}}}}});
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
           .option = draw(track),
           .notes = {
               fmt::format("{} found (E-divisive with means, p at most 5%; fewer than 8 points cannot show "
                           "one). Green is faster, purple slower; the dashed line is the level from step to step.",
                           format_count(std::ssize(track.steps), "step")),
               "Measured one after the other, not side by side: a machine's own drift counts as a step."}});
    }
  drawn.left_out =
      "no configuration was measured three times over two revisions, on the same machine and the same work";
  return drawn;
}

}  // namespace headroom::charts
