// A waterfall of the bytes of weights over the ladder.

#include <fmt/format.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/waterfall.hpp"

namespace headroom::charts {

Drawn size_reduction(const Dataset& dataset) {
  Drawn drawn{.charts = {}, .left_out = "no ladder says how large its weights are, or no switch of one changes that"};
  for (const LadderView& ladder : ladders_of(dataset)) {
    std::vector<WaterfallStep> steps;
    const auto add = [&](const RungView& rung) {
      const std::optional<MemoryReport>& memory = rung.measurement->result->memory;
      if (!memory || !memory->weights_bytes) return;
      const auto bytes = static_cast<double>(*memory->weights_bytes);
      Tip tip(rung.measurement->label);
      tip.row("weights", exact(bytes, "bytes"));
      std::string text = label_bytes(bytes);
      if (!steps.empty() && bytes > 0 && steps.back().value != bytes) {
        text += fmt::format("  {} smaller", label_factor(steps.back().value / bytes));
        tip.row("before it", exact(steps.back().value, "bytes"));
      }
      steps.push_back({.name = rung.label, .value = bytes, .interval = {}, .text = text, .tip = tip.json()});
    };
    add(ladder.baseline);
    for (const RungView& rung : ladder.cumulative) add(rung);
    if (steps.empty()) continue;
    std::string total = label_bytes(steps.back().value);
    if (steps.back().value > 0)
      total += fmt::format("  {} smaller in all", label_factor(steps.front().value / steps.back().value));
    const auto differs = [&](const WaterfallStep& step) { return step.value != steps.front().value; };
    if (steps.size() < 2 || std::ranges::none_of(steps, differs)) continue;
    std::vector<std::string> names = {"all together"};
    for (const WaterfallStep& step : steps) names.push_back(step.name);
    drawn.charts.push_back({.file = numbered("size_reduction", drawn.charts.size()),
                            .title = "Size of the weights as switches are added one after the other",
                            .subtitle = subtitle_of(*ladder.scenario),
                            .of = {ladder.scenario},
                            .option = waterfall(steps, total, "weights, as the kernels hold them", "axis_bytes"),
                            .notes = {},
                            .height = height_of_bars(names)});
  }
  return drawn;
}

}  // namespace headroom::charts
