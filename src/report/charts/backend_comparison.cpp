// The same work by Headroom and by peers, one chart per work, fastest first.

#include <fmt/format.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

constexpr std::size_t kMost = 6;  // of ours and of peers each; more would not be legible

/// The fastest of ours or of peers, and the baseline, the starting point of ours.
std::vector<const Measurement*> fastest_of(const Scenario& scenario, bool of_peers) {
  std::vector<const Measurement*> all;
  for (const Measurement* m : scenario.current)
    if (m->timing && m->is_peer == of_peers) all.push_back(m);
  std::ranges::stable_sort(all, {}, [](const Measurement* m) { return m->time().median_ms; });
  std::size_t kept = 0;
  std::erase_if(all, [&](const Measurement* m) { return kept++ >= kMost && !m->is_baseline(); });
  return all;
}

/// `factor` is relative to the fastest of the others.
Bar make_bar(const Measurement& m, const std::optional<Estimate>& factor) {
  Tip tip(m.label);
  tip.row("source", fmt::format("{} {}", m.result->source.name, m.result->source.version)).timing(m);
  std::string text = label_ms(m.time().median_ms);
  if (m.unsettled) text += "  unsettled";
  if (factor) {
    tip.factor("against the fastest of the others", factor);
    text += "  " + label_factor(*factor);
  }
  return {.name = m.shown_name(),
          .value = m.time().median_ms,
          .interval = m.time().interval_ms,
          .text = std::move(text),
          .role = m.is_peer         ? "purple"
                  : m.is_baseline() ? "base"
                                    : "orange",
          .tip = tip.json(),
          .is_hollow = m.unsettled.has_value()};
}

}  // namespace

Drawn backend_comparison(const Dataset& dataset) {
  Drawn drawn{.charts = {}, .left_out = "no work was run both by Headroom and by a peer on the same machine"};
  for (const Scenario& work : dataset.scenarios()) {
    if (work.subject.kind == SubjectKind::kKernel) continue;
    std::vector<const Measurement*> shown = fastest_of(work, false);
    const std::vector<const Measurement*> peers = fastest_of(work, true);
    const auto is_timed = [](const Measurement* m) { return m->timing.has_value(); };
    const bool is_cut = std::ssize(shown) + std::ssize(peers) < std::ranges::count_if(work.current, is_timed);
    if (shown.empty() || peers.empty()) continue;
    shown.insert(shown.end(), peers.begin(), peers.end());
    std::ranges::stable_sort(shown, {}, [](const Measurement* m) { return m->time().median_ms; });
    std::vector<Bar> bars;
    const Measurement& fastest_peer = *peers.front();
    for (const Measurement* m : shown)
      bars.push_back(make_bar(*m, m->is_peer ? std::nullopt : dataset.factor(fastest_peer, *m)));
    const std::string unit = shown.front()->time().unit;
    Chart chart{.file = numbered("backend_comparison", drawn.charts.size()),
                .title = "The same work by Headroom and by others",
                .subtitle = subtitle_of(work),
                .of = {&work},
                .option = horizontal_bars(bars, fmt::format("time per {}", unit), "axis_ms"),
                .notes = notes_on(work, shown),
                .height = height_of_bars(names_of(bars))};
    if (std::ranges::any_of(shown,
                            [&](const Measurement* m) { return dataset.factor(fastest_peer, *m) && !m->is_peer; }))
      chart.notes.insert(chart.notes.begin(),
                         fmt::format("The factor is on {}, the fastest of the other programs: above 1 is faster.",
                                     fastest_peer.shown_name()));
    if (is_cut)
      chart.notes.push_back(fmt::format(
          "Drawn are the {0} fastest of Headroom, its baseline, and the {0} fastest of other programs.", kMost));
    chart.notes.emplace_back(
        "Only results of equal work (equal hash) on the same machine are compared. Purple: other "
        "programs. Grey: the baseline.");
    drawn.charts.push_back(std::move(chart));
  }
  return drawn;
}

}  // namespace headroom::charts
