// Where the baseline's time went: a flow from rung to rung, which each switch takes time from or adds time to.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

/// Names of nodes must differ and mean nothing: what is shown is their text.
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
  [[nodiscard]] json option() const {
    json option = base_option();
    option["series"] = json::array({{{"type", "sankey"},
                                     {"left", 44},
                                     {"right", 60},
                                     {"top", 44},
                                     {"bottom", 10},
                                     {"nodeAlign", "left"},
                                     {"nodeGap", 48},
                                     {"nodeWidth", 14},
                                     {"layoutIterations", 32},
                                     {"data", nodes_},
                                     {"links", links_},
                                     {"emphasis", {{"focus", "adjacency"}}},
                                     {"lineStyle", {{"color", "source"}, {"opacity", 0.35}}},
                                     {"label",
                                      {{"color", color("text")},
                                       {"position", "top"},  // beside its bar it would lie on a flow
                                       {"fontSize", 12},
                                       {"lineHeight", 15},
                                       {"formatter", fn("label")},
                                       {"textBorderColor", color("panel")},
                                       {"textBorderWidth", 3}}}}});
    // On a narrow screen it flows down, and names stand below their bars.
    option["media"] = json::array(
        {{{"query", {{"maxWidth", 600}}},
          {"option",
           {{"series", json::array({{{"orient", "vertical"},
                                     {"nodeGap", 66},
                                     {"left", 10},
                                     {"right", 36},
                                     {"top", 10},
                                     {"bottom", 36},
                                     {"label", {{"position", "bottom"}, {"fontSize", 10}, {"lineHeight", 12}}}}})}}}}});
    return option;
  }

 private:
  json nodes_ = json::array();
  json links_ = json::array();
};

Chart draw_flow(const LadderView& ladder, std::size_t index) {
  Flow flow;
  double before = ladder.baseline.measurement->time().median_ms;
  std::string from = flow.add("baseline", before, "base", 0);
  int depth = 0;
  for (const RungView& rung : ladder.cumulative) {
    const double now = rung.measurement->time().median_ms;
    const bool is_last = &rung == &ladder.cumulative.back();
    const std::string to = flow.add(is_last ? "what is left" : rung.label, now, is_last ? "orange" : "blue", ++depth);
    flow.link(from, to, std::min(now, before), fmt::format("left with {}", rung.measurement->label));
    if (now < before)
      flow.link(from, flow.add(fmt::format("{} saves", rung.label.substr(2)), before - now, "green", depth),
                before - now, fmt::format("saved by {}", rung.label.substr(2)));
    else if (now > before)
      flow.link(flow.add(fmt::format("{} adds", rung.label.substr(2)), now - before, "purple", depth - 1), to,
                now - before, fmt::format("added by {}", rung.label.substr(2)));
    before = now;
    from = to;
  }
  const std::string unit = ladder.baseline.measurement->time().unit;
  return {.file = numbered("optimization_flow", index),
          .title = fmt::format("Where the baseline's time per {} went, switch by switch", unit),
          .subtitle = subtitle_of(*ladder.scenario),
          .of = {ladder.scenario},
          .option = flow.option(),
          .notes = {"Each switch is added to those before it. Differences of medians; their intervals are in "
                    "cumulative_impact."},
          .height = 500};
}

}  // namespace

Drawn optimization_flow(const Dataset& dataset) { return draw_ladders(dataset, draw_flow); }

}  // namespace headroom::charts
