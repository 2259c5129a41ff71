// Synergy of switches: the factor of both over the product of the factors of each. A heatmap if three switches or
// more were measured in pairs; for a ladder, each switch on top of those before it.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text/format.hpp"
#include "report/advice/synergy.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/dot_plot.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

Dot synergy_dot(const Interaction& one) {
  const RungView &alone = *one.alone, &before = *one.before, &together = *one.together;
  Tip tip(fmt::format("{} on top of {}", alone.measurement->label, before.measurement->label));
  tip.factor("together", together.on_baseline)
      .factor(before.measurement->label, before.on_baseline)
      .factor(fmt::format("{} alone", alone.measurement->label), alone.on_baseline)
      .row("quotient", label_factor(one.quotient));
  return {.name = fmt::format("{} on {}", alone.measurement->label, before.measurement->label),
          .value = one.quotient.value,
          .interval = one.quotient.interval,
          .text = label_factor(one.quotient),
          .is_unsettled = false,
          .tip = tip.json()};
}

std::vector<std::string> switches_in_pairs(const std::vector<Interaction>& pairs) {
  std::vector<std::string> names;
  for (const Interaction& pair : pairs)
    for (const RungView* rung : {pair.before, pair.alone})
      if (std::ranges::find(names, rung->measurement->label) == names.end()) names.push_back(rung->measurement->label);
  return names;
}

/// A cell of two switches; grey if the interval holds 1.
json synergy_cell(const Interaction& pair, std::size_t column, std::size_t row) {
  const Dot dot = synergy_dot(pair);
  const Finding finding = finding_of(dot, 1);
  const std::string_view role = finding == Finding::kAbove ? "green" : finding == Finding::kBelow ? "purple" : "track";
  const bool is_certain = finding != Finding::kInconclusive;
  std::string text = dot.text;
  if (const std::size_t space = text.find(' '); space != std::string::npos) text[space] = '\n';
  return {{"value", json::array({column, row, dot.value})},
          {"text", text},
          {"tip", dot.tip},
          {"itemStyle", {{"color", color(role)}}},
          {"label", {{"color", color(is_certain ? "on_dark" : "text")}}}};
}

/// A triangular matrix: a column for each switch but the last, a row for each but the first.
json draw_pairs(const std::vector<Interaction>& pairs, const std::vector<std::string>& names) {
  const auto place = [&](const RungView& rung) {
    return static_cast<std::size_t>(std::ranges::find(names, rung.measurement->label) - names.begin());
  };
  json cells = json::array();
  for (const Interaction& pair : pairs) {
    const std::size_t one = place(*pair.before), other = place(*pair.alone);
    cells.push_back(synergy_cell(pair, std::min(one, other), std::max(one, other) - 1));
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 20}, {"top", 8}, {"bottom", 40}, {"containLabel", true}};
  option["xAxis"] = {
      {"type", "category"}, {"data", std::vector(names.begin(), names.end() - 1)}, {"axisLabel", {{"interval", 0}}}};
  option["yAxis"] = name_axis({names.begin() + 1, names.end()});
  option["series"] = json::array({{{"type", "heatmap"},
                                   {"data", cells},
                                   {"itemStyle", {{"borderColor", color("panel")}, {"borderWidth", 2}}},
                                   {"label", {{"show", true}, {"lineHeight", 15}, {"formatter", fn("label")}}}}});
  return option;
}

/// The chart of a ladder: a matrix of pairs, or all interactions in rows.
std::optional<Chart> draw_synergy(const LadderView& ladder, std::size_t index) {
  std::vector<Interaction> all = interactions_of(ladder), pairs;
  if (all.empty()) return {};
  std::ranges::copy_if(all, std::back_inserter(pairs), &Interaction::is_pair);
  const std::vector<std::string> names = switches_in_pairs(pairs);
  const bool is_matrix =
      pairs.size() >= 3 && pairs.size() * 4 >= names.size() * (names.size() - 1);  // half of all pairs
  Chart chart{.file = numbered("switch_synergy", index),
              .title = {},
              .subtitle = subtitle_of(*ladder.scenario),
              .of = {ladder.scenario},
              .option = {},
              .notes = {}};
  std::vector<Dot> dots;
  for (const Interaction& one : is_matrix ? pairs : all) dots.push_back(synergy_dot(one));
  if (is_matrix) {
    chart.title = "Synergy of pairs of switches";
    chart.option = draw_pairs(pairs, names);
    chart.height = 90 + 60 * static_cast<int>(names.size() - 1);
    chart.notes = {
        "A cell is grey where its 95% interval holds 1 or it has none; green gains more together, purple less."};
  } else {
    chart.title = "Synergy of each switch with those before it";
    chart.option =
        dot_plot(dots, "factor together over the product of the factors apart", "axis_factor", 1, Finding::kAbove);
    chart.height = height_of_dots(dots);
    chart.notes = dot_plot_notes(dots, 1, "more together", "less together");
  }
  chart.notes.insert(
      chart.notes.begin(),
      "Synergy is the factor of all over (factor of those before) x (factor of the switch alone), on one baseline.");
  std::size_t least = ladder.baseline.measurement->time().trials_ms.size();
  for (const Interaction& one : all)
    for (const RungView* rung : {one.alone, one.before, one.together})
      least = std::min(least, rung->measurement->time().trials_ms.size());
  chart.notes.push_back(
      fmt::format("n = {} of each configuration or more.", format_count(static_cast<std::int64_t>(least), "trial")));
  return chart;
}

}  // namespace

Drawn switch_synergy(const Dataset& dataset) {
  Drawn drawn;
  for (const LadderView& ladder : ladders_of(dataset))
    if (std::optional<Chart> chart = draw_synergy(ladder, drawn.charts.size()))
      drawn.charts.push_back(std::move(*chart));
  drawn.left_out =
      "no two switches were measured in one run both alone and together, all settled (headroom ladder --opt "
      "arena,fuse)";
  return drawn;
}

}  // namespace headroom::charts
