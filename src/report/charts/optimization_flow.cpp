// Flow of the baseline's time from rung to rung; each switch takes time from it or adds time to it.

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "measure/quality/quality_loss.hpp"
#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr int kNarrowLabel = 66, kNarrowLine = 12;  // pixels

/// The number of lines, at most, in which a node's text is broken on a narrow screen.
int narrow_lines_of(const std::string& text) {
  constexpr std::size_t kLetters = 10;  // of a line
  int lines = 0;
  for (std::size_t at = 0; at < text.size(); ++lines) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::size_t most = std::min(end, at + kLetters);
    const std::size_t stop = most == end ? end : text.find_last_of(" =+:", most);
    at = stop == std::string::npos || stop <= at ? most : stop + 1;
  }
  return lines;
}

/// Node names only have to differ; the displayed text is separate.
class Flow {
 public:
  std::string add(std::string_view text, double ms, std::string_view role, int depth) {
    std::string name = fmt::format("n{}", nodes_.size());
    Tip tip(text);
    tip.row("time", exact(ms, "ms"));
    nodes_.push_back({{"name", name},
                      {"text", fmt::format("{}\n{}", text, label_ms(ms))},
                      {"tip", tip.json()},
                      {"depth", depth},
                      {"itemStyle", {{"color", color(role)}}}});
    return name;
  }
  void link(const std::string& from, const std::string& to, double ms, std::string_view what) {
    Tip tip(what);
    tip.row("time", exact(ms, "ms"));
    links_.push_back({{"source", from}, {"target", to}, {"value", ms}, {"tip", tip.json()}});
  }
  /// Columns of nodes are numbered from 0 to `depth`.
  [[nodiscard]] json option(int depth) const {
    constexpr int kWidth = 912, kMargin = 80;
    const int column = (kWidth - 2 * kMargin) / std::max(depth, 1);
    json option = base_option();
    option["series"] = json::array({{{"type", "sankey"},
                                     {"left", kMargin},
                                     {"right", kMargin},
                                     {"top", 60},
                                     {"bottom", 10},
                                     {"nodeAlign", "left"},
                                     {"nodeGap", 62},
                                     {"nodeWidth", 14},
                                     {"layoutIterations", 32},
                                     {"data", nodes_},
                                     {"links", links_},
                                     {"emphasis", {{"focus", "adjacency"}}},
                                     {"lineStyle", {{"color", "source"}, {"opacity", 0.35}}},
                                     {"label",
                                      {{"color", color("text")},
                                       {"position", "top"},  // next to its bar it would overlap a flow
                                       {"fontSize", 12},
                                       {"lineHeight", 15},
                                       {"width", std::min(column - 8, 2 * kMargin)},
                                       {"overflow", "break"},
                                       {"formatter", fn("label")},
                                       {"textBorderColor", color("panel")},
                                       {"textBorderWidth", 3}}}}});
    // On a narrow screen the flow runs down, and names are placed below their bars.
    int lines = 2;
    for (const json& node : nodes_)
      if (node["depth"] == depth) lines = std::max(lines, narrow_lines_of(node["text"].get<std::string>()));
    const int bottom = kNarrowLine * lines + 10;
    narrow_option(option)["series"] = json::array({{{"orient", "vertical"},
                                                    {"nodeGap", 70},
                                                    {"left", 30},
                                                    {"right", 40},
                                                    {"top", 10},
                                                    {"bottom", bottom},
                                                    {"label",
                                                     {{"position", "bottom"},
                                                      {"width", kNarrowLabel},
                                                      {"fontSize", 10},
                                                      {"lineHeight", kNarrowLine},
                                                      {"formatter", fn("label_breakable")}}}}});
    return option;
  }

 private:
  json nodes_ = json::array();
  json links_ = json::array();
};

/// A step of the flow whose change is significant: its rung, and its effect on the previously drawn rung.
struct Kept {
  const RungView* rung;
  Estimate factor;
  std::string first = {};  ///< the first switch of the rungs between both that are not drawn; empty if there is none
};

/// The reason why a rung is not a step of the flow; empty if it is one. `step` names the step drawn before it, whose
/// measurement is `before`.
std::string why_not(const RungView& rung, const Measurement& before, const std::string& step,
                    const std::optional<Estimate>& factor) {
  const auto since = [&](const Estimate& one) { return fmt::format("{} since {}", label_factor(one), step); };
  if (rung.is_declined()) return "declined";
  if (rung.is_unsettled()) return "unsettled";
  if (!factor || !factor->interval) return "no interval";
  if (are_equal_in_time(factor)) return since(*factor);
  const double change_ms = before.time().median_ms - rung.measurement->time().median_ms;
  // Rounds may tell the contrary of the medians, of which a flow of time consists.
  return (factor->value > 1) == (change_ms > 0) ? "" : since(*factor) + ", against the medians";
}

/// `left_out` receives the names of the other rungs, with reasons.
std::vector<Kept> kept_of(const Dataset& dataset, const LadderView& ladder, std::vector<std::string>& left_out) {
  std::vector<Kept> kept;
  const Measurement* before = ladder.baseline.measurement;
  std::string first, step = "the baseline";
  for (const RungView& rung : ladder.cumulative) {
    const std::optional<Estimate> factor = dataset.factor(*before, *rung.measurement);
    const std::string added = fmt::format("{}", fmt::join(rung.added, "+"));
    if (const std::string why = why_not(rung, *before, step, factor); !why.empty()) {
      left_out.push_back(fmt::format("{} ({})", added, why));
      if (first.empty() && !rung.is_declined()) first = added;
      continue;
    }
    kept.push_back({.rung = &rung, .factor = *factor, .first = std::exchange(first, {})});
    before = rung.measurement;
    step = added;
  }
  return kept;
}

std::optional<Chart> draw_flow(const Dataset& dataset, const LadderView& ladder, std::size_t index) {
  std::vector<std::string> left_out;
  const std::vector<Kept> kept = kept_of(dataset, ladder, left_out);
  if (kept.empty()) return {};
  Flow flow;
  double before = ladder.baseline.measurement->time().median_ms;
  std::string from = flow.add("baseline", before, "base", 0);
  int depth = 0;
  for (const auto& [rung, factor, first] : kept) {
    const double now = rung->measurement->time().median_ms;
    const bool is_last = rung == kept.back().rung;
    const std::string added = fmt::format("{}", fmt::join(rung->added, " + "));
    // The change is against the step drawn before, and includes that of switches between them.
    const std::string changing = first.empty() ? added : fmt::format("{} to {}", first, added);
    const std::string to = flow.add(is_last ? "what is left" : "+ " + added, now, is_last ? "orange" : "blue", ++depth);
    flow.link(from, to, std::min(now, before), fmt::format("left with {}", rung->measurement->label));
    if (now < before)
      flow.link(from, flow.add(fmt::format("{} saves", changing), before - now, "green", depth), before - now,
                fmt::format("saved by {}, {}", changing, label_factor(factor)));
    else if (now > before)
      flow.link(flow.add(fmt::format("{} adds", changing), now - before, "purple", depth - 1), to, now - before,
                fmt::format("added by {}, {}", changing, label_factor(factor)));
    before = now;
    from = to;
  }
  const std::string unit = ladder.baseline.measurement->time().unit;
  Chart chart{.file = numbered("optimization_flow", index),
              .title = fmt::format("Where the baseline's time per {} went, switch by switch", unit),
              .subtitle = subtitle_of(*ladder.scenario),
              .of = {ladder.scenario},
              .option = flow.option(depth),
              .notes = {"Each switch is added to those before it. Differences of medians; their intervals are in "
                        "cumulative_impact."},
              .height = 500};
  if (!left_out.empty())
    chart.notes.push_back(
        fmt::format("Not drawn as steps, because no change of theirs is known to exceed the noise: {}.",
                    fmt::join(left_out, "; ")));
  return chart;
}

}  // namespace

Drawn optimization_flow(const Dataset& dataset) {
  Drawn drawn{
      .charts = {},
      .left_out = "no ladder has a switch whose effect is known to exceed the noise: its factor needs an interval"};
  for (const LadderView& ladder : ladders_of(dataset)) {
    if (ladder.cumulative.size() < 2) continue;
    if (std::optional<Chart> chart = draw_flow(dataset, ladder, drawn.charts.size()))
      drawn.charts.push_back(std::move(*chart));
  }
  return drawn;
}

}  // namespace headroom::charts
