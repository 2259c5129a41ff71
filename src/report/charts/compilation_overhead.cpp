// What the first run takes beyond a later one: series "first_run" beside the times of later runs.

#include <fmt/format.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

const TrialSeries* first_run_of(const Measurement& m) {
  const auto found = std::ranges::find(m.result->trials, "first_run", &TrialSeries::what);
  if (found == m.result->trials.end() || !m.timing || m.time().series == "first_run") return nullptr;
  return &*found;
}

json draw(const std::vector<const Measurement*>& measured) {
  std::vector<std::string> names, texts;
  json later = json::array(), extra = json::array();
  for (const Measurement* m : measured) {
    const double first_ms = first_run_of(*m)->statistics.median, later_ms = m->time().median_ms;
    Tip tip(m->label);
    tip.row("first run", exact(first_ms, "ms")).row("beyond a later run", exact(first_ms - later_ms, "ms")).timing(*m);
    names.push_back(m->shown_name());
    later.push_back({{"value", std::min(first_ms, later_ms)}, {"tip", tip.json()}});
    texts.push_back(fmt::format("{} first,  {} later", label_ms(first_ms), label_ms(later_ms)));
    extra.push_back({{"value", std::max(0.0, first_ms - later_ms)}, {"text", texts.back()}, {"tip", tip.json()}});
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis("the first run", "axis_ms");
  option["series"] = json::array({{{"type", "bar"},
                                   {"stack", "run"},
                                   {"name", "a later run"},
                                   {"barMaxWidth", 26},
                                   {"data", later},
                                   {"itemStyle", {{"color", color("blue")}}}},
                                  {{"type", "bar"},
                                   {"stack", "run"},
                                   {"name", "beyond it: compiling, folding, capturing"},
                                   {"barMaxWidth", 26},
                                   {"data", extra},
                                   {"itemStyle", {{"color", color("gold")}}},
                                   {"label", value_label()}}});
  fit_bars(option, texts);
  add_legend(option, {"a later run", "beyond it: compiling, folding, capturing"}, 12);
  return option;
}

}  // namespace

Drawn compilation_overhead(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    std::vector<const Measurement*> measured;
    for (const Measurement* m : scenario.current)
      if (first_run_of(*m) != nullptr) measured.push_back(m);
    if (measured.empty()) continue;
    drawn.charts.push_back({.file = numbered("compilation_overhead", drawn.charts.size()),
                            .title = "What the first run takes beyond a later one",
                            .subtitle = subtitle_of(scenario),
                            .of = {&scenario},
                            .option = draw(measured),
                            .notes = {},
                            .height = height_of_bars(measured.size()) + 52});
    note_revisions(drawn.charts.back().notes, measured);
  }
  drawn.left_out = "no result has the series first_run beside that of later runs";
  return drawn;
}

}  // namespace headroom::charts
