// Time of one configuration over revisions, and where it stepped.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/charts/charts.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr double kThreshold = 1.05;  // a step is at least 5%

std::string revision_of(const Measurement& m) {
  return m.file->machine.build ? m.file->machine.build->git_revision : "unknown";
}

/// A step: the interval of the factor leaves 1 out, and the factor is beyond the threshold.
bool is_step(const std::optional<Estimate>& factor) {
  if (!factor || !factor->interval) return false;
  const bool is_faster = factor->interval->low > 1 && factor->value >= kThreshold;
  const bool is_slower = factor->interval->high < 1 && factor->value <= 1 / kThreshold;
  return is_faster || is_slower;
}

struct Track {
  std::string label;
  std::vector<const Measurement*> points;  // by time of measurement, one for each revision
};

/// The configurations measured at three revisions or more.
std::vector<Track> tracks_of(const Scenario& scenario) {
  std::map<std::string, Track> by_label;
  for (const Measurement* m : scenario.all) {
    if (m->is_peer || !m->timing) continue;
    Track& track = by_label[m->label];
    track.label = m->label;
    const auto same =
        std::ranges::find_if(track.points, [&](const Measurement* p) { return revision_of(*p) == revision_of(*m); });
    if (same == track.points.end())
      track.points.push_back(m);
    else
      *same = m;
  }
  std::vector<Track> tracks;
  for (auto& [label, track] : by_label)
    if (track.points.size() >= 3) tracks.push_back(std::move(track));
  return tracks;
}

json draw(const Dataset& dataset, const Track& track, std::size_t& steps) {
  std::vector<std::string> names;
  json items = json::array(), intervals = json::array();
  for (const Measurement* m : track.points) {
    const double ms = m->timing->median_ms;
    const std::size_t place = names.size();
    std::optional<Estimate> factor;
    if (place > 0) factor = dataset.factor(*track.points[place - 1], *m);
    const bool stepped = is_step(factor);
    steps += stepped ? 1 : 0;
    Tip tip(fmt::format("{} at {}", track.label, revision_of(*m)));
    tip.row("measured", m->file->created).timing(*m);
    if (factor) tip.factor("against the revision before", factor);
    names.push_back(revision_of(*m).substr(0, 12));
    std::string text = label_ms(ms);
    if (stepped) text += fmt::format("\n{}", label_factor(factor->value));
    items.push_back({{"value", ms},
                     {"text", text},
                     {"tip", tip.json()},
                     {"symbolSize", stepped ? 14 : 8},
                     {"itemStyle",
                      {{"color", color(!stepped            ? "base"
                                       : factor->value > 1 ? "green"
                                                           : "purple")}}}});
    if (m->timing->interval_ms)
      intervals.push_back(json::array({place, m->timing->interval_ms->low, m->timing->interval_ms->high}));
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 40}, {"top", 50}, {"bottom", 60}, {"containLabel", true}};
  option["xAxis"] = {{"type", "category"}, {"data", names},
                     {"name", "revision"}, {"nameLocation", "middle"},
                     {"nameGap", 60},      {"axisLabel", {{"rotate", 30}, {"hideOverlap", true}}}};
  option["yAxis"] = value_axis(fmt::format("time per {}", track.points.front()->timing->unit), "axis_ms");
  option["yAxis"].update(
      {{"min", 0}, {"nameLocation", "end"}, {"nameGap", 12}, {"nameTextStyle", {{"align", "left"}}}});
  option["series"] = json::array({{{"type", "line"},
                                   {"data", items},
                                   {"symbol", "circle"},
                                   {"lineStyle", {{"color", color("base")}}},
                                   {"labelLayout", {{"hideOverlap", true}}},
                                   {"label",
                                    {{"show", true},
                                     {"position", "top"},
                                     {"distance", 8},
                                     {"lineHeight", 15},
                                     {"color", color("text")},
                                     {"textBorderColor", color("panel")},
                                     {"textBorderWidth", 3},
                                     {"formatter", fn("label")}}}},
                                  {{"type", "custom"},
                                   {"silent", true},
                                   {"renderItem", fn("interval_y")},
                                   {"encode", {{"x", 0}, {"y", json::array({1, 2})}}},
                                   {"data", intervals}}});
  return option;
}

}  // namespace

Drawn history(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios())
    for (const Track& track : tracks_of(scenario)) {
      std::size_t steps = 0;
      json option = draw(dataset, track, steps);
      drawn.charts.push_back(
          {.file = numbered("history", drawn.charts.size()),
           .title = fmt::format("{} over revisions", track.label),
           .subtitle = subtitle_of(scenario),
           .option = std::move(option),
           .notes = {fmt::format("{} step{} found: places where the interval of the factor leaves 1 out and the median "
                                 "moves by 5% or "
                                 "more. Green is faster, purple slower.",
                                 steps, steps == 1 ? "" : "s"),
                     "Measured one after the other, not side by side: a machine's own drift counts as a step."}});
    }
  drawn.left_out = "no configuration was measured at three revisions or more, on the same machine and the same work";
  return drawn;
}

}  // namespace headroom::charts
