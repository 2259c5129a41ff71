// Memory of each configuration: in use at the peak, held beyond that, and what the device has in all.

#include <fmt/format.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

struct Row {
  std::string name;
  const MemoryReport* memory;
  std::int64_t peak_bytes;
};

void add_bytes(Tip& tip, const char* name, const std::optional<std::int64_t>& bytes) {
  if (bytes) tip.row(name, fmt::format("{} bytes", *bytes));
}

json tip_of(const Row& row) {
  const MemoryReport& memory = *row.memory;
  Tip tip(row.name);
  add_bytes(tip, "used at the peak", row.peak_bytes);
  add_bytes(tip, "allocated", memory.reserved_bytes);
  if (memory.reserved_bytes) add_bytes(tip, "allocated, not used", *memory.reserved_bytes - row.peak_bytes);
  add_bytes(tip, "device has", memory.device_total_bytes);
  if (memory.device_total_bytes && memory.reserved_bytes)
    add_bytes(tip, "left on the device", *memory.device_total_bytes - *memory.reserved_bytes);
  add_bytes(tip, "weights", memory.weights_bytes);
  add_bytes(tip, "activations", memory.activations_bytes);
  add_bytes(tip, "of which scratch of kernels", memory.workspace_bytes);
  add_bytes(tip, "state", memory.state_bytes);
  add_bytes(tip, "inputs", memory.inputs_bytes);
  add_bytes(tip, "held by others", memory.untracked_bytes);
  return tip.json();
}

json draw(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  json used = json::array(), held = json::array();
  double most = 0;
  for (const Row& row : rows) {
    names.push_back(row.name);
    const auto peak = static_cast<double>(row.peak_bytes);
    const auto gap = row.memory->reserved_bytes ? static_cast<double>(*row.memory->reserved_bytes) - peak : 0;
    const json tip = tip_of(row);
    most = std::max(most, peak + gap);
    used.push_back({{"value", peak}, {"tip", tip}});
    std::string text = fmt::format("{} used", label_bytes(peak));
    if (row.memory->reserved_bytes) text += fmt::format(", {} allocated", label_bytes(peak + gap));
    held.push_back({{"value", gap}, {"text", text}, {"tip", tip}});
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 240}, {"top", 36}, {"bottom", 44}, {"containLabel", true}};
  option["legend"] = {{"top", 0}, {"left", 0}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = byte_axis("device memory", most);
  const auto series = [](const char* name, json data, std::string_view role) {
    return json{{"type", "bar"},     {"stack", "memory"},       {"name", name},
                {"barMaxWidth", 26}, {"data", std::move(data)}, {"itemStyle", {{"color", color(role)}}}};
  };
  option["series"] =
      json::array({series("used at the peak", used, "blue"), series("allocated, not used", held, "blue_soft")});
  option["series"][1]["label"] = value_label();
  option["media"] = json::array(
      {{{"query", {{"maxWidth", 600}}},
        {"option",
         {{"grid", {{"right", 122}}},
          {"xAxis", {{"splitNumber", 2}}},
          {"yAxis", narrow_names(option["yAxis"])},
          {"series",
           json::array(
               {json::object(),
                {{"label", {{"width", 122}, {"overflow", "break"}, {"fontSize", 11}, {"lineHeight", 14}}}}})}}}}});
  return option;
}

}  // namespace

Drawn memory_usage(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    if (scenario.subject.kind == SubjectKind::kKernel) continue;
    std::vector<Row> rows;
    std::optional<std::int64_t> total;
    for (const Measurement* m : scenario.current) {
      if (!m->result->memory || !m->result->memory->peak_bytes) continue;
      rows.push_back({m->shown_name(), &*m->result->memory, *m->result->memory->peak_bytes});
      if (!total) total = m->result->memory->device_total_bytes;
    }
    if (rows.empty()) continue;
    Chart chart{.file = numbered("memory_usage", drawn.charts.size()),
                .title = "Memory of each configuration",
                .subtitle = subtitle_of(scenario),
                .of = {&scenario},
                .option = draw(rows),
                .notes = {},
                .height = height_of_bars(rows.size()) + 28};
    if (total) {
      const auto peak = static_cast<double>(rows.front().peak_bytes);
      chart.notes.push_back(fmt::format("The device has {}; {} uses {:.3g}% of it.",
                                        label_bytes(static_cast<double>(*total)), rows.front().name,
                                        100 * peak / static_cast<double>(*total)));
    }
    note_revisions(chart.notes, scenario.current);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out = "no result of a model says how much memory it used";
  return drawn;
}

}  // namespace headroom::charts
