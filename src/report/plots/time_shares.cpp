#include "report/plots/time_shares.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ranges>

#include "base/text/format.hpp"
#include "measure/probes/floor.hpp"
#include "measure/probes/profile.hpp"
#include "report/advice/quality_loss.hpp"
#include "report/plots/option.hpp"

namespace headroom {
namespace {

using nlohmann::json;

std::vector<TimeShare> shares_by(const Measurement& m, const std::function<std::string(const PlannedNode&)>& name_of) {
  const ProfileRecord& profile = *m.result->profile;
  const std::vector<PlannedNode>& nodes = m.file->plans.at(*m.result->plan).nodes;
  std::map<std::string, TimeShare> by_name;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    TimeShare& share = by_name[name_of(nodes[i])];
    const auto runs = static_cast<double>(profile.runs[i]);
    share.ms += runs * profile.time_ms[i];
    share.floor_ms = share.floor_ms.value_or(0) + runs * profile.floor_ms[i];
    share.launches += static_cast<std::size_t>(profile.runs[i]);
  }
  std::vector<TimeShare> shares;
  for (auto& [name, share] : by_name) {
    share.name = name;
    if (share.ms > 0) shares.push_back(std::move(share));
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, &TimeShare::ms);
  return shares;
}

double total_ms(const std::vector<TimeShare>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0.0, [](double sum, const TimeShare& s) { return sum + s.ms; });
}

/// Merges the small shares into one at the end.
std::vector<TimeShare> largest(std::vector<TimeShare> shares) {
  constexpr std::size_t kMost = 12;
  constexpr double kLeast = 0.005;  // of the total
  const double least_ms = kLeast * total_ms(shares);
  const auto small = std::ranges::find_if(shares, [&](const TimeShare& share) { return share.ms < least_ms; });
  const auto kept = std::min<std::size_t>(kMost, static_cast<std::size_t>(small - shares.begin()));
  if (shares.size() <= kept + 1) return shares;
  TimeShare rest{.name = fmt::format("{} others", shares.size() - kept), .ms = 0, .floor_ms = 0, .launches = 0};
  for (const TimeShare& share : shares | std::views::drop(kept)) {
    rest.ms += share.ms;
    *rest.floor_ms += share.floor_ms.value_or(0);
    rest.launches += share.launches;
  }
  shares.resize(kept);
  shares.push_back(std::move(rest));
  return shares;
}

bool takes_less_than_floor(const TimeShare& share) {
  return share.floor_ms && is_below_floor(share.ms / *share.floor_ms);
}

/// "2.00x its floor", or that it is below; empty without a floor.
std::string on_floor(const TimeShare& share, std::string_view format) {
  if (!share.floor_ms || !(*share.floor_ms > 0)) return {};
  const double factor = share.ms / *share.floor_ms;
  return fmt::format(fmt::runtime(format), is_below_floor(factor) ? std::string("below its floor")
                                           : factor < 1           ? std::string("at its floor")
                                                                  : label_factor(factor) + " its floor");
}

/// What was profiled.
std::string_view whole_of(const Measurement& profiled) {
  if (find_series(*profiled.result, "setup") != nullptr) return "setup";
  return find_series(*profiled.result, "forward") != nullptr ? "pass" : "request";
}

json draw(const std::vector<TimeShare>& shares, std::string_view whole) {
  const std::string in_whole = fmt::format("time in a {}", whole);
  const double total = total_ms(shares);
  std::vector<Bar> bars;
  json floors = json::array(), above = json::array();
  for (const TimeShare& share : shares) {
    const double floor_ms = std::min(share.floor_ms.value_or(0), share.ms);
    Tip tip(share.name);
    tip.row(in_whole, exact(share.ms, "ms")).row("share of all", exact(100 * share.ms / total, "%"));
    tip.row("launches", fmt::format("{}", share.launches));
    if (share.floor_ms) tip.row("floor", exact(*share.floor_ms, "ms"));
    std::string text = fmt::format("{}  {}%", label_ms(share.ms), format_significant(100 * share.ms / total));
    text += on_floor(share, "  {}");
    bars.push_back(
        {.name = share.name, .value = share.ms, .interval = {}, .text = text, .role = "orange", .tip = tip.json()});
    floors.push_back({{"value", floor_ms}, {"tip", tip.json()}});
  }
  json option = horizontal_bars(bars, in_whole, "axis_ms");
  option["series"][0]["name"] = "above the floor";
  option["series"].push_back({{"type", "bar"},
                              {"name", "floor"},
                              {"barMaxWidth", 26},
                              {"barGap", "-100%"},
                              {"data", floors},
                              {"itemStyle", {{"color", color("blue")}}}});
  narrow_option(option)["series"].push_back({{"barMaxWidth", 12}});
  return option;
}

/// The largest shares in words.
std::string in_words(const std::vector<TimeShare>& shares) {
  constexpr std::size_t kMost = 4;
  const double total = total_ms(shares);
  std::vector<std::string> parts;
  for (const TimeShare& share : shares | std::views::take(kMost)) {
    const double percent = 100 * share.ms / total;
    if (percent < 1 && !parts.empty()) break;
    std::string part = fmt::format("{} {:.0f}%", share.name, percent);
    part += on_floor(share, " ({})");
    parts.push_back(std::move(part));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The precisions that decide which kernels run. A profile of other precisions has other kernels; the number of
/// steps does not matter.
std::vector<std::string> precisions_of(const Measurement& m) {
  std::vector<std::string> names = lossy_switches(m.result->configuration);
  std::erase_if(names, [](const std::string& name) { return name.starts_with("steps="); });
  return names;
}

}  // namespace

std::vector<TimeShare> shares_by_op(const Measurement& profiled) {
  return shares_by(profiled, [](const PlannedNode& node) { return node.op; });
}

std::vector<TimeShare> shares_by_module(const Measurement& profiled) {
  constexpr std::size_t kMostNames = 4;
  return shares_by(profiled, [](const PlannedNode& node) { return module_kind(node.node, kMostNames); });
}

Drawn draw_profiles(const Dataset& dataset, const std::string& file, const std::string& what,
                    std::vector<TimeShare> (*shares_of)(const Measurement& profiled)) {
  Drawn drawn{.charts = {}, .left_out = "no result has a profile (headroom profile --out FILE)"};
  const std::vector<View> views = views_of(dataset);
  for (const Scenario& scenario : dataset.scenarios())
    for (const Measurement* m : scenario.profiled) {
      const std::vector<TimeShare> shares = largest(shares_of(*m));
      if (shares.empty()) continue;
      std::vector<std::string> names;
      for (const TimeShare& share : shares) names.push_back(share.name);
      Chart chart{.file = numbered(file, drawn.charts.size()),
                  .title = fmt::format("Where the time of a {} goes, by {}: {}", whole_of(*m), what, m->label),
                  .subtitle = subtitle_of(scenario) + "; time, and share of the time of all launches",
                  .of = {},
                  .option = draw(shares, whole_of(*m)),
                  .notes = {"Blue is the floor, the least that the machine could do it in by rates it was measured at "
                            "in the same run; orange is the time above it."},
                  .height = height_of_bars(names),
                  .variant = m->label,
                  .shown = &scenario};
      if (m->unsettled)
        chart.notes.push_back(
            fmt::format("The times are unsettled, and nothing should be concluded from them: {}.", *m->unsettled));
      if (std::ranges::any_of(shares, takes_less_than_floor))
        chart.notes.emplace_back(
            "Some took less than their floor: a floor is made of rates that were measured too, and is as uncertain as "
            "they are.");
      for (const View& view : views)
        if (!view.is_of_kernels && is_akin(scenario, view))
          chart.of.insert(chart.of.end(), view.scenarios.begin(), view.scenarios.end());
      drawn.charts.push_back(std::move(chart));
    }
  return drawn;
}

std::string where_time_goes(const Dataset& dataset, const View& view, const Measurement& deployed) {
  const Measurement* profiled = nullptr;
  for (const Scenario& scenario : dataset.scenarios())
    if (is_akin(scenario, view))
      for (const Measurement* m : scenario.profiled)
        if (precisions_of(*m) == precisions_of(deployed) && (profiled == nullptr || profiled->label != deployed.label))
          profiled = m;
  if (profiled != nullptr)
    return fmt::format("{}, by the profile of {} ({})", in_words(shares_by_op(*profiled)), profiled->label,
                       dataset.scenario_of(*profiled).work);
  std::vector<TimeShare> stages;
  if (const std::optional<LatencyRecord>& stream = deployed.result->latency) {
    const auto sum = [](const std::vector<double>& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); };
    stages = {{.name = "decode", .ms = sum(stream->decode_ms)},
              {.name = "queue", .ms = sum(stream->queue_ms)},
              {.name = "device", .ms = sum(stream->device_ms)},
              {.name = "encode", .ms = sum(stream->encode_ms)}};
  }
  if (deployed.result->stages.empty() && stages.empty()) return {};
  for (const StageRecord& stage : deployed.result->stages)
    stages.push_back({.name = stage.name,
                      .ms = series_of(*deployed.result, stage.name).statistics.median,
                      .floor_ms = stage.floor_ms,
                      .launches = 0});
  std::ranges::stable_sort(stages, std::ranges::greater{}, &TimeShare::ms);
  return fmt::format("{}, by its stages", in_words(stages));
}

}  // namespace headroom
