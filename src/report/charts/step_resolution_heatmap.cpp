// Steps by resolution, with the seconds in each cell, for the configuration that was measured in the most cells.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "measure/table.hpp"
#include "report/charts/charts.hpp"
#include "report/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

struct Cell {
  double steps;
  double tokens;
  const Measurement* measurement;
};

/// Cells by what they share: model, the rest of the request, hardware and configuration.
std::map<std::string, std::vector<Cell>> cells_of(const Dataset& dataset) {
  std::map<std::string, std::vector<Cell>> cells;
  for (const Scenario& scenario : dataset.scenarios()) {
    const auto tokens = image_tokens_of(scenario.subject), steps = request_number(scenario.subject, "steps");
    if (!tokens || !steps) continue;
    json rest = scenario.subject.request;
    for (const std::string& key : resolution_keys()) rest.erase(key);
    rest.erase("steps");
    for (const Measurement* m : scenario.current)
      if (m->timing || is_out_of_memory(*m->result))
        cells[fmt::format("{}|{}|{}|{}|{}", scenario.subject.name, rest.dump(), scenario.hardware, m->label,
                          m->result->configuration.baseline_dtype.value_or(""))]
            .push_back({*steps, *tokens, m});
  }
  return cells;
}

std::string seconds(double ms) { return fmt::format("{} s", format_significant(ms / 1e3)); }

json draw(const std::vector<Cell>& cells, const std::set<double>& steps, const std::set<double>& tokens) {
  const auto names = [](const std::set<double>& values) {
    std::vector<std::string> made;
    for (const double value : values) made.push_back(fmt::format("{}", value));
    return made;
  };
  const auto place = [](const std::set<double>& values, double value) {
    return std::distance(values.begin(), values.find(value));
  };
  json items = json::array(), full = json::array();  // of cells with a time, and without the memory for one
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Cell& cell : cells) {
    if (!cell.measurement->timing) continue;
    least = std::min(least, cell.measurement->time().median_ms);
    most = std::max(most, cell.measurement->time().median_ms);
  }
  constexpr double kStrong = 0.5;  // where assets/charts.js has the middle of "heat"
  for (const Cell& cell : cells) {
    const auto column = place(tokens, cell.tokens), row = place(steps, cell.steps);
    if (!cell.measurement->timing) {
      Tip tip(fmt::format("{}, {} steps, {} image tokens", cell.measurement->label, cell.steps, cell.tokens));
      tip.row("not measured", "it needs more memory than there is");
      full.push_back({{"value", json::array({column, row, 0})}, {"text", "out of memory"}, {"tip", tip.json()}});
      continue;
    }
    const double ms = cell.measurement->time().median_ms;
    const bool is_strong = ms - least > kStrong * (most - least);
    Tip tip(fmt::format("{}, {} steps, {} image tokens", cell.measurement->label, cell.steps, cell.tokens));
    tip.row("seconds", exact(ms / 1e3, "s")).timing(*cell.measurement);
    items.push_back({{"value", json::array({column, row, ms})},
                     {"text", seconds(ms)},
                     {"label", {{"color", color(is_strong ? "on_strong_heat" : "on_heat")}}},
                     {"tip", tip.json()}});
  }
  json option = base_option();
  option["grid"] = {{"left", 60}, {"right", 20}, {"top", 8}, {"bottom", 100}, {"containLabel", true}};
  option["xAxis"] = {{"type", "category"},
                     {"name", "image tokens"},
                     {"nameLocation", "middle"},
                     {"nameGap", 30},
                     {"data", names(tokens)}};
  option["yAxis"] = {
      {"type", "category"}, {"name", "steps"}, {"nameLocation", "middle"}, {"nameGap", 50}, {"data", names(steps)}};
  option["visualMap"] = {{"min", least},
                         {"max", most},
                         {"calculable", false},
                         {"orient", "horizontal"},
                         {"left", "center"},
                         {"bottom", 0},
                         {"itemHeight", 160},
                         {"text", json::array({seconds(most), seconds(least)})},
                         {"textStyle", {{"color", color("text")}}},
                         {"seriesIndex", 0},
                         {"inRange", {{"color", color("heat")}}}};
  option["series"] = json::array({{{"type", "heatmap"},
                                   {"data", items},
                                   {"itemStyle", {{"borderColor", color("panel")}, {"borderWidth", 2}}},
                                   {"label", {{"show", true}, {"formatter", fn("label")}}}},
                                  {{"type", "heatmap"},
                                   {"data", full},
                                   {"itemStyle", {{"color", color("track")}, {"borderColor", color("panel")}}},
                                   {"label", {{"show", true}, {"color", color("text")}, {"formatter", fn("label")}}}}});
  return option;
}

}  // namespace

Drawn step_resolution_heatmap(const Dataset& dataset) {
  const std::map<std::string, std::vector<Cell>> groups = cells_of(dataset);
  Drawn drawn{.charts = {}, .left_out = "no configuration was measured at two numbers of steps and two resolutions"};
  const std::vector<Cell>* best = nullptr;
  const auto rank = [](const std::vector<Cell>& cells) {
    const std::optional<Timing>& timing = cells.back().measurement->timing;
    return std::pair(cells.size(), timing ? -timing->median_ms : 0);
  };
  const auto has_time = [](const Cell& cell) { return cell.measurement->timing.has_value(); };
  for (const auto& [key, cells] : groups)
    if (std::ranges::none_of(cells, has_time))
      continue;
    else if (best == nullptr || rank(cells) > rank(*best))
      best = &cells;
  if (best == nullptr) return drawn;
  std::set<double> steps, tokens;
  for (const Cell& cell : *best) {
    steps.insert(cell.steps);
    tokens.insert(cell.tokens);
  }
  if (steps.size() < 2 || tokens.size() < 2) return drawn;
  const Scenario& scenario = dataset.scenario_of(*best->front().measurement);
  std::vector<const Measurement*> measured;
  for (const Cell& cell : *best) measured.push_back(cell.measurement);
  drawn.charts.push_back({.file = "step_resolution_heatmap",
                          .title = "Seconds for an image, by steps and resolution",
                          .subtitle = fmt::format("{}, {}; {}", scenario.subject.name, best->front().measurement->label,
                                                  scenario.hardware),
                          .of = dataset.scenarios_of(measured),
                          .option = draw(*best, steps, tokens),
                          .notes = {"A blank cell was not measured."},
                          .height = 140 + 48 * static_cast<int>(steps.size())});
  note_revisions(drawn.charts.back().notes, measured);
  return drawn;
}

}  // namespace headroom::charts
