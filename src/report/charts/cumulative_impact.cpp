// A waterfall from the baseline to all switches together, and their synergy.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/plots/waterfall.hpp"

namespace headroom::charts {
namespace {

std::string synergy_note(const Synergy& synergy) {
  const Finding finding = finding_of(synergy.quotient.interval, 1);
  const std::string_view verdict = !synergy.quotient.interval   ? "without an interval, so nothing is claimed"
                                   : finding == Finding::kAbove ? "together they do more than that"
                                   : finding == Finding::kBelow
                                       ? "together they do less than that"
                                       : "its interval holds 1, so it is not certain that there is any";
  return fmt::format("All together {}, product of the factors of each alone {}. Synergy, their quotient, {}: {}.",
                     label_factor(synergy.combined), label_factor(synergy.product), label_factor(synergy.quotient),
                     verdict);
}

/// What the interval of a rung's factor on the rung before shows; nothing of what declined.
Finding change_of(const RungView& rung) {
  if (!rung.on_previous || rung.is_declined()) return Finding::kInconclusive;
  return finding_of(rung.on_previous->interval, 1);
}

Chart draw(const LadderView& ladder, std::size_t index) {
  std::vector<WaterfallStep> steps;
  const auto add = [&](const RungView& rung, const std::string& name) {
    Tip tip(rung.measurement->label);
    tip.timing(*rung.measurement).factor("against the baseline", rung.on_baseline);
    if (rung.on_previous) tip.factor("against the rung before", rung.on_previous);
    steps.push_back({.name = name,
                     .value = rung.measurement->time().median_ms,
                     .interval = rung.measurement->time().interval_ms,
                     .text = label_ms(rung.measurement->time().median_ms) + rung.mark(rung.on_previous),
                     .tip = tip.json(),
                     .is_hollow = rung.is_unsettled(),
                     .change = change_of(rung)});
  };
  add(ladder.baseline, "baseline");
  std::vector<const Measurement*> drawn = {ladder.baseline.measurement};
  for (const RungView& rung : ladder.cumulative) {
    add(rung, rung.label);
    drawn.push_back(rung.measurement);
  }
  const std::string unit = ladder.baseline.measurement->time().unit;
  std::string total = label_ms(steps.back().value);
  if (const std::optional<Estimate>& all = ladder.cumulative.back().on_baseline)
    total += fmt::format("  {} in all", label_factor(*all));
  else if (ladder.cumulative.back().is_unsettled())
    total += "  unsettled";
  std::vector<std::string> names = {"all together"};
  for (const WaterfallStep& step : steps) names.push_back(step.name);
  Chart chart{.file = numbered("cumulative_impact", index),
              .title = fmt::format("Time per {} as switches are added one after the other", unit),
              .subtitle = subtitle_of(*ladder.scenario),
              .of = {ladder.scenario},
              .option = waterfall(steps, total, fmt::format("time per {}", unit), "axis_ms"),
              .notes = notes_on(*ladder.scenario, drawn),
              .height = height_of_bars(names)};
  if (const std::optional<Synergy> synergy = ladder.synergy())
    chart.notes.insert(chart.notes.begin(), synergy_note(*synergy));
  chart.notes.insert(
      chart.notes.begin(),
      "The factor is against the rung before: above 1 is faster. Green is faster, purple slower, grey does "
      "not differ significantly from it, declined, or has a factor without an interval.");
  return chart;
}

}  // namespace

Drawn cumulative_impact(const Dataset& dataset) { return draw_ladders(dataset, draw); }

}  // namespace headroom::charts
