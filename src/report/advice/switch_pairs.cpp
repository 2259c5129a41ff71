#include "report/advice/switch_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/plots/option.hpp"

namespace headroom {

namespace {

/// Total launches of a plan, if the result has one.
std::optional<std::size_t> launches_of(const Measurement& m) {
  if (!m.result->plan) return {};
  return m.file->plans.at(*m.result->plan).nodes.size();
}

Bar make_bar(const Measurement& m, const std::optional<Estimate>& factor, std::string_view role) {
  Tip tip(m.label);
  tip.timing(m);
  if (factor) tip.factor("against the same without it", factor);
  if (const auto launches = launches_of(m)) tip.row("launches in the plan", fmt::format("{}", *launches));
  std::string text = label_ms(m.time().median_ms);
  if (m.unsettled) text += "  unsettled";
  if (factor) text += fmt::format("  {}", label_factor(*factor));
  return {.name = m.shown_name(),
          .value = m.time().median_ms,
          .interval = m.time().interval_ms,
          .text = std::move(text),
          .role = role,
          .tip = tip.json(),
          .is_hollow = m.unsettled.has_value()};
}

/// A bar without and a bar with the switch for each pair, one below the other.
std::vector<Bar> bars_of(const Dataset& dataset, const std::vector<SwitchPair>& pairs) {
  std::vector<Bar> bars;
  for (const SwitchPair& pair : pairs) {
    bars.push_back(make_bar(*pair.without, {}, "base"));
    bars.push_back(make_bar(*pair.with, dataset.factor(*pair.without, *pair.with), "blue"));
  }
  return bars;
}

}  // namespace

std::vector<SwitchPair> pairs_of(const LadderView& ladder, std::string_view switch_name) {
  const auto without_it = [&](const Measurement& m) {
    std::vector<std::string> names = m.switches();
    std::erase_if(names, [&](const std::string& name) { return name.substr(0, name.find('=')) == switch_name; });
    return names;
  };
  std::vector<SwitchPair> pairs;
  const std::vector<const RungView*> rungs = ladder.all();
  for (const RungView* with : rungs) {
    const std::vector<std::string> rest = without_it(*with->measurement);
    if (with->measurement->is_peer || rest.size() == with->measurement->switches().size()) continue;
    if (with->measurement->declined(switch_name)) continue;
    const auto found = std::ranges::find_if(rungs, [&](const RungView* other) {
      return !other->measurement->is_peer && other->measurement->switches() == rest;
    });
    if (found != rungs.end()) pairs.push_back({(*found)->measurement, with->measurement});
  }
  return pairs;
}

std::vector<Chart> compare_switch(const Dataset& dataset, std::string_view switch_name, std::string_view file,
                                  std::string_view title) {
  std::vector<Chart> charts;
  for (const LadderView& ladder : ladders_of(dataset)) {
    const std::vector<SwitchPair> pairs = pairs_of(ladder, switch_name);
    if (pairs.empty()) continue;
    const std::vector<Bar> bars = bars_of(dataset, pairs);
    std::vector<const Measurement*> drawn;
    for (const SwitchPair& pair : pairs) drawn.insert(drawn.end(), {pair.without, pair.with});
    charts.push_back(
        {.file = numbered(file, charts.size()),
         .title = std::string(title),
         .subtitle = subtitle_of(*ladder.scenario),
         .of = {ladder.scenario},
         .option = horizontal_bars(bars, fmt::format("time per {}", pairs.front().with->time().unit), "axis_ms"),
         .notes = {fmt::format("Blue is with {0}, grey above it the same configuration without: the factor is of these "
                               "two, and above 1 {0} is faster.",
                               switch_name)},
         .height = height_of_bars(names_of(bars))});
    for (std::string& note : notes_on(*ladder.scenario, drawn)) charts.back().notes.push_back(std::move(note));
  }
  return charts;
}

}  // namespace headroom
