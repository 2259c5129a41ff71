// Steps by resolution, with the seconds in each cell: one chart for each configuration and batch.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/text/format.hpp"
#include "measure/tables/table.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

struct Cell {
  double steps;
  double area;  ///< sort key of sizes
  std::string size;
  const Measurement* measurement;

  [[nodiscard]] std::pair<double, std::string> column() const { return {area, size}; }
  [[nodiscard]] std::string place() const {
    return fmt::format("{} in {}", size, format_count(std::lround(steps), "step"));
  }
};

/// The cells of one configuration: equal model, hardware, requested switches and rest of the request.
struct CellTable {
  std::string name;  ///< of the configuration
  std::string rest;  ///< of the work: images at once
  std::vector<Cell> cells;

  void add(Cell cell) {
    const auto same = std::ranges::find_if(
        cells, [&](const Cell& other) { return other.steps == cell.steps && other.column() == cell.column(); });
    if (same == cells.end())
      cells.push_back(std::move(cell));
    else if (cell.measurement->file->created >= same->measurement->file->created)
      *same = std::move(cell);  // the applied switches may differ then
  }
};

/// Tables of models that were measured at two sizes and two numbers of steps, in the order of the results.
std::vector<CellTable> cell_tables_of(const Dataset& dataset) {
  std::map<std::string, std::size_t> places;
  std::vector<CellTable> tables;
  for (const Scenario& scenario : dataset.scenarios()) {
    const auto area = image_area_of(scenario.subject), steps = request_number(scenario.subject, "steps");
    if (!area || !steps || scenario.subject.kind != SubjectKind::kModel) continue;
    Subject rest = scenario.subject;
    for (const std::string& key : resolution_keys()) rest.request.erase(key);
    rest.request.erase("steps");
    for (const Measurement* m : scenario.current) {
      if (!m->timing && !is_out_of_memory(*m->result)) continue;
      const auto [place, is_new] =
          places.try_emplace(fmt::format("{}|{}|{}|{}|{}", rest.name, rest.request.dump(), scenario.hardware, m->label,
                                         m->result->configuration.baseline_dtype.value_or("")),
                             tables.size());
      if (is_new)
        tables.push_back({.name = m->precision ? fmt::format("{} ({})", m->label, *m->precision) : m->label,
                          .rest = describe_work(rest),
                          .cells = {}});
      tables[place->second].add({*steps, *area, describe_size(scenario.subject), m});
    }
  }
  std::erase_if(tables, [](const CellTable& table) {
    std::set<double> steps, areas;
    for (const Cell& cell : table.cells) {
      steps.insert(cell.steps);
      areas.insert(cell.area);
    }
    const auto has_time = [](const Cell& cell) { return cell.measurement->timing.has_value(); };
    return steps.size() < 2 || areas.size() < 2 || std::ranges::none_of(table.cells, has_time);
  });
  return tables;
}

/// The unit of the first time.
std::string unit_of_cells(const std::vector<Cell>& cells) {
  const auto timed = std::ranges::find_if(cells, [](const Cell& cell) { return cell.measurement->timing.has_value(); });
  return timed->measurement->time().unit;
}

std::string seconds(double ms) { return fmt::format("{} s", format_significant(ms / 1e3)); }

/// Positions of values on an axis; its `names` are in order.
template <typename Value>
std::ptrdiff_t place_in(const std::set<Value>& values, const Value& value) {
  return std::distance(values.begin(), values.find(value));
}

json draw(const std::vector<Cell>& cells, std::string_view size_name) {
  std::set<double> steps;
  std::set<std::pair<double, std::string>> sizes;
  for (const Cell& cell : cells) {
    steps.insert(cell.steps);
    sizes.insert(cell.column());
  }
  std::vector<std::string> step_names, size_names;
  for (const double each : steps) step_names.push_back(fmt::format("{}", each));
  for (const auto& [area, size] : sizes) size_names.push_back(size);
  json items = json::array(), full = json::array();  // cells with a time, and cells without the memory for one
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const Cell& cell : cells) {
    if (!cell.measurement->timing) continue;
    least = std::min(least, cell.measurement->time().median_ms);
    most = std::max(most, cell.measurement->time().median_ms);
  }
  constexpr double kStrong = 0.5;  // the middle of "heat" in assets/charts.js
  for (const Cell& cell : cells) {
    const auto column = place_in(sizes, cell.column()), row = place_in(steps, cell.steps);
    if (!cell.measurement->timing) {
      Tip tip(fmt::format("{}, {}", cell.measurement->label, cell.place()));
      tip.row("not measured", "it needs more memory than there is");
      full.push_back({{"value", json::array({column, row, 0})}, {"text", "out of memory"}, {"tip", tip.json()}});
      continue;
    }
    const double ms = cell.measurement->time().median_ms;
    const bool is_strong = ms - least > kStrong * (most - least);
    Tip tip(fmt::format("{}, {}", cell.measurement->label, cell.place()));
    tip.row("seconds", exact(ms / 1e3, "s")).timing(*cell.measurement);
    items.push_back({{"value", json::array({column, row, ms})},
                     {"text", cell.measurement->unsettled ? seconds(ms) + "\nunsettled" : seconds(ms)},
                     {"label", {{"color", color(is_strong ? "on_strong_heat" : "on_heat")}}},
                     {"tip", tip.json()}});
  }
  json option = base_option();
  option["grid"] = {{"left", 60}, {"right", 20}, {"top", 8}, {"bottom", 100}, {"containLabel", true}};
  option["xAxis"] = {
      {"type", "category"}, {"name", size_name}, {"nameLocation", "middle"}, {"nameGap", 30}, {"data", size_names}};
  option["yAxis"] = {
      {"type", "category"}, {"name", "steps"}, {"nameLocation", "middle"}, {"nameGap", 50}, {"data", step_names}};
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
  Drawn drawn{.charts = {}, .left_out = "no configuration was measured at two numbers of steps and two resolutions"};
  for (const CellTable& table : cell_tables_of(dataset)) {
    std::vector<const Measurement*> measured;
    std::vector<Placed> placed;
    std::set<double> steps;
    bool in_pixels = true;
    for (const Cell& cell : table.cells) {
      measured.push_back(cell.measurement);
      placed.emplace_back(cell.place(), cell.measurement);
      steps.insert(cell.steps);
      in_pixels = in_pixels && is_size_in_pixels(dataset.scenario_of(*cell.measurement).subject);
    }
    const std::string unit = unit_of_cells(table.cells);
    Chart chart{.file = numbered("step_resolution_heatmap", drawn.charts.size()),
                .title = fmt::format("Seconds for {} {}, by steps and resolution: {}", unit == "image" ? "an" : "a",
                                     unit, table.name),
                .subtitle = fmt::format("{}; {}", table.rest, dataset.scenario_of(*measured.front()).hardware),
                .of = dataset.scenarios_of(measured),
                .option = draw(table.cells, in_pixels ? "size of an image in pixels" : "size of an image"),
                .notes = {"A blank cell was not measured."},
                .height = 140 + 48 * static_cast<int>(steps.size()),
                .variant = table.name};
    note_declined(chart.notes, table.name, placed);
    note_revisions(chart.notes, measured);
    drawn.charts.push_back(std::move(chart));
  }
  return drawn;
}

}  // namespace headroom::charts
