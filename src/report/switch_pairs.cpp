#include "report/switch_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/option.hpp"

namespace headroom {

using nlohmann::json;

namespace {

/// Launches of a plan in all, where the result has one.
std::optional<std::size_t> launches_of(const Measurement& m) {
  if (!m.result->plan) return {};
  return m.file->plans.at(*m.result->plan).nodes.size();
}

json make_item(const Measurement& m, const std::optional<Estimate>& factor) {
  Tip tip(m.label);
  tip.timing(m);
  if (factor) tip.factor("against the same without it", factor);
  if (const auto launches = launches_of(m)) tip.row("launches in the plan", fmt::format("{}", *launches));
  std::string text = label_ms(m.time().median_ms);
  if (m.result->unsettled) text += "  unsettled";
  if (factor) text += fmt::format("  {}", label_factor(factor->value));
  return {{"value", m.time().median_ms}, {"text", text}, {"tip", tip.json()}};
}

json draw(const Dataset& dataset, const std::vector<SwitchPair>& pairs, std::string_view switch_name) {
  std::vector<std::string> names;
  json without = json::array(), with = json::array();
  for (const SwitchPair& pair : pairs) {
    names.push_back(fmt::format("on {}", pair.without->label));
    without.push_back(make_item(*pair.without, {}));
    with.push_back(make_item(*pair.with, dataset.factor(*pair.without, *pair.with)));
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 170}, {"top", 36}, {"bottom", 44}, {"containLabel", true}};
  option["legend"] = {{"top", 0}, {"left", 0}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis(fmt::format("time per {}", pairs.front().with->time().unit), "axis_ms");
  option["xAxis"]["min"] = 0;
  const auto series = [](std::string name, json data, std::string_view role) {
    return json{{"type", "bar"},
                {"name", std::move(name)},
                {"barMaxWidth", 22},
                {"data", std::move(data)},
                {"itemStyle", {{"color", color(role)}}},
                {"label", value_label()}};
  };
  option["series"] = json::array({series(fmt::format("without {}", switch_name), without, "base"),
                                  series(fmt::format("with {}", switch_name), with, "blue")});
  option["media"] = json::array(
      {{{"query", {{"maxWidth", 600}}},
        {"option",
         {{"grid", {{"right", 112}}}, {"xAxis", {{"splitNumber", 2}}}, {"yAxis", narrow_names(option["yAxis"])}}}}});
  return option;
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
    charts.push_back({.file = numbered(file, charts.size()),
                      .title = std::string(title),
                      .subtitle = subtitle_of(*ladder.scenario),
                      .of = {ladder.scenario},
                      .option = draw(dataset, pairs, switch_name),
                      .notes = {"The factor is against the same configuration without the switch: above 1 is faster."},
                      .height = 110 + 70 * static_cast<int>(pairs.size())});
  }
  return charts;
}

}  // namespace headroom
