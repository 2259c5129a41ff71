// Baseline, each switch alone, all together, other sets and peers: time of a unit of work and speedup over the
// baseline.

#include <fmt/ranges.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

Bar make_bar(const RungView& rung, std::string name, std::string_view role) {
  Tip tip(rung.measurement->label);
  tip.timing(*rung.measurement).factor("against the baseline", rung.on_baseline);
  return {.name = std::move(name),
          .value = rung.measurement->time().median_ms,
          .interval = rung.measurement->time().interval_ms,
          .text = label_ms(rung.measurement->time().median_ms) + rung.mark(rung.on_baseline),
          .role = role,
          .tip = tip.json(),
          .is_hollow = rung.is_unsettled()};
}

/// Whether a rung has every switch of the others.
bool has_all_switches(const LadderView& ladder, const RungView& combined) {
  const std::vector<std::string>& all = combined.measurement->switches();
  const auto is_in_all = [&](const std::string& name) { return std::ranges::find(all, name) != all.end(); };
  for (const std::vector<RungView>* rungs : {&ladder.singles, &ladder.others})
    for (const RungView& rung : *rungs)
      if (!std::ranges::all_of(rung.measurement->switches(), is_in_all)) return false;
  return true;
}

Chart draw_factors(const LadderView& ladder, std::size_t index) {
  std::vector<Bar> bars = {make_bar(ladder.baseline, "baseline", "base")};
  std::vector<const Measurement*> drawn = {ladder.baseline.measurement};
  const auto add = [&](const RungView& rung, std::string name, std::string_view role) {
    bars.push_back(make_bar(rung, std::move(name), role));
    drawn.push_back(rung.measurement);
  };
  for (const RungView& rung : ladder.singles) add(rung, rung.label, "blue");
  for (const RungView& rung : ladder.others) add(rung, rung.label, "sky");
  const RungView* const all = ladder.combined();
  const bool is_all = all != nullptr && has_all_switches(ladder, *all);
  if (all != nullptr) add(*all, is_all ? "all together" : all->measurement->shown_name(), is_all ? "orange" : "sky");
  constexpr std::size_t kMostPeers = 3;  // all of them are in backend_comparison
  std::vector<RungView> peers = ladder.peers;
  std::ranges::stable_sort(peers, {}, [](const RungView& rung) { return rung.measurement->time().median_ms; });
  peers.resize(std::min(peers.size(), kMostPeers));
  for (const RungView& rung : peers) add(rung, rung.label, "purple");

  const std::string unit = ladder.baseline.measurement->time().unit;
  Chart chart{.file = numbered("speedup_comparison", index),
              .title = fmt::format("What each optimization does to the time per {}", unit),
              .subtitle = subtitle_of(*ladder.scenario),
              .of = {ladder.scenario},
              .option = horizontal_bars(bars, fmt::format("time per {}", unit), "axis_ms"),
              .notes = notes_on(*ladder.scenario, drawn),
              .height = height_of_bars(names_of(bars))};
  chart.notes.insert(chart.notes.begin(), "The factor says how many times as fast as the baseline: above 1 is faster.");
  if (is_all)
    chart.notes.push_back(
        fmt::format("All together: {}.", fmt::join(all->measurement->result->configuration.applied, ", ")));
  return chart;
}

}  // namespace

Drawn speedup_comparison(const Dataset& dataset) {
  Drawn drawn;
  for (const LadderView& ladder : ladders_of(dataset))
    if (!ladder.singles.empty() || !ladder.cumulative.empty() || !ladder.others.empty())
      drawn.charts.push_back(draw_factors(ladder, drawn.charts.size()));
  drawn.left_out = "no model was measured both without any switch and with one, in one run";
  return drawn;
}

}  // namespace headroom::charts
