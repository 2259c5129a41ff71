// Memory of each configuration: in use at the peak, held beyond that, and what the device has in all.

#include <fmt/format.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

struct MemoryRow {
  std::string name;
  const MemoryReport* memory;
  std::int64_t peak_bytes;
};

void add_bytes(Tip& tip, const char* name, const std::optional<std::int64_t>& bytes) {
  if (bytes) tip.row(name, fmt::format("{} bytes", *bytes));
}

json tip_of(const MemoryRow& row) {
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

json draw(const std::vector<MemoryRow>& rows) {
  std::vector<std::string> names, texts;
  json used = json::array(), held = json::array();
  double most = 0;
  for (const MemoryRow& row : rows) {
    names.push_back(row.name);
    const auto peak = static_cast<double>(row.peak_bytes);
    const auto gap = row.memory->reserved_bytes ? static_cast<double>(*row.memory->reserved_bytes) - peak : 0;
    const json tip = tip_of(row);
    most = std::max(most, peak + gap);
    used.push_back({{"value", peak}, {"tip", tip}});
    std::string text = fmt::format("{} used", label_bytes(peak));
    if (row.memory->reserved_bytes) text += fmt::format(",  {} allocated", label_bytes(peak + gap));
    texts.push_back(text);
    held.push_back({{"value", gap}, {"text", text}, {"tip", tip}});
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = byte_axis("device memory", most);
  const auto series = [](const char* name, json data, std::string_view role) {
    return json{{"type", "bar"},     {"stack", "memory"},       {"name", name},
                {"barMaxWidth", 26}, {"data", std::move(data)}, {"itemStyle", {{"color", color(role)}}}};
  };
  option["series"] =
      json::array({series("used at the peak", used, "blue"), series("allocated, not used", held, "blue_soft")});
  option["series"][1]["label"] = value_label();
  fit_bars(option, texts);
  add_legend(option, {"used at the peak", "allocated, not used"}, 12);
  return option;
}

}  // namespace

Drawn memory_usage(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    if (scenario.subject.kind == SubjectKind::kKernel) continue;
    std::vector<MemoryRow> rows;
    std::optional<std::int64_t> total;
    for (const Measurement* m : scenario.current) {
      if (!m->result->memory || !m->result->memory->peak_bytes) continue;
      rows.push_back({m->shown_name(), &*m->result->memory, *m->result->memory->peak_bytes});
      if (!total) total = m->result->memory->device_total_bytes;
    }
    if (rows.size() < 2) continue;  // one is in the table
    std::vector<std::string> names;
    for (const MemoryRow& row : rows) names.push_back(row.name);
    Chart chart{.file = numbered("memory_usage", drawn.charts.size()),
                .title = "Memory of each configuration",
                .subtitle = subtitle_of(scenario),
                .of = {&scenario},
                .option = draw(rows),
                .notes = {},
                .height = height_of_bars(names) + 52};
    if (total) {
      const auto peak = static_cast<double>(rows.front().peak_bytes);
      chart.notes.push_back(fmt::format("The device has {}; {} uses {:.3g}% of it.",
                                        label_bytes(static_cast<double>(*total)), rows.front().name,
                                        100 * peak / static_cast<double>(*total)));
    }
    note_revisions(chart.notes, scenario.current);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out = "no two configurations of one work say how much memory they used";
  return drawn;
}

}  // namespace headroom::charts
