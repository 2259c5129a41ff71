// Memory of each configuration: peak in use, held beyond that, change from the baseline, and free device memory.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/tables/table.hpp"
#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

struct MemoryRow {
  std::string name;
  const MemoryReport* memory;
  std::int64_t peak_bytes;
  std::optional<std::int64_t> baseline_bytes = {};  ///< peak of the baseline; absent in its own row
  bool is_peer = false;

  /// The device memory that neither this program nor others hold. Not known of programs that do not tell what others,
  /// their own context and libraries hold.
  [[nodiscard]] std::optional<double> free_bytes() const {
    if (!memory->device_total_bytes || !memory->reserved_bytes || !memory->untracked_bytes) return {};
    const auto total = static_cast<double>(*memory->device_total_bytes);
    const auto held = static_cast<double>(std::max(*memory->reserved_bytes, peak_bytes));
    return total - held - static_cast<double>(*memory->untracked_bytes);
  }
  /// "+1.20 GiB (+6.6%)" against the baseline.
  [[nodiscard]] std::string change_text() const {
    const double change = static_cast<double>(peak_bytes) - static_cast<double>(*baseline_bytes);
    if (change == 0) return "+0 B";
    std::string text = fmt::format("{}{}", change < 0 ? "-" : "+", label_bytes(std::abs(change)));
    if (*baseline_bytes > 0)
      text += fmt::format(" ({}%)", format_signed(100 * change / static_cast<double>(*baseline_bytes)));
    return text;
  }
};

/// The peak of the baseline of the same precision, if both are Headroom's; empty for the baseline itself.
std::optional<std::int64_t> baseline_peak_of(const Scenario& scenario, const Measurement& m) {
  if (m.is_peer || m.is_baseline()) return {};
  const auto found = std::ranges::find_if(scenario.current, [&](const Measurement* other) {
    return other->is_baseline() && other->result->memory && other->result->memory->peak_bytes &&
           other->result->configuration.baseline_dtype == m.result->configuration.baseline_dtype;
  });
  return found == scenario.current.end() ? std::nullopt : (*found)->result->memory->peak_bytes;
}

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
  if (const auto left = row.free_bytes()) tip.row("free on the device", fmt::format("{:.0f} bytes", *left));
  if (row.baseline_bytes) tip.row("against the baseline", row.change_text());
  add_bytes(tip, "weights", memory.weights_bytes);
  add_bytes(tip, "activations", memory.activations_bytes);
  add_bytes(tip, "of which scratch of kernels", memory.workspace_bytes);
  add_bytes(tip, "state", memory.state_bytes);
  add_bytes(tip, "inputs", memory.inputs_bytes);
  add_bytes(tip, "held by others", memory.untracked_bytes);
  return tip.json();
}

json draw(const std::vector<MemoryRow>& rows) {
  std::vector<std::string> names, texts, narrow_texts;
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
    if (row.memory->reserved_bytes) text += fmt::format(", {} allocated", label_bytes(peak + gap));
    std::string second = row.baseline_bytes ? row.change_text() + " on baseline" : "";
    if (const auto left = row.free_bytes())
      second += fmt::format("{}{} free", second.empty() ? "" : ", ", label_bytes(*left));
    if (!second.empty()) text += "\n" + second;
    texts.push_back(text);
    std::string narrow = fmt::format("{} used", label_bytes(peak));
    if (row.baseline_bytes)
      narrow += "  " + row.change_text();
    else if (row.memory->reserved_bytes)
      narrow += fmt::format("  {} allocated", label_bytes(peak + gap));
    narrow_texts.push_back(narrow);
    held.push_back({{"value", gap}, {"text", text}, {"narrow", narrow}, {"tip", tip}});
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  const auto series = [](const char* name, json data, std::string_view role) {
    return json{{"type", "bar"},     {"stack", "memory"},       {"name", name},
                {"barMaxWidth", 26}, {"data", std::move(data)}, {"itemStyle", {{"color", color(role)}}}};
  };
  option["series"] =
      json::array({series("used at the peak", used, "blue"), series("allocated, not used", held, "blue_soft")});
  option["series"][1]["label"] = value_label({{"lineHeight", 14}});
  fit_bars(option, texts, narrow_texts);
  set_byte_axis(option, "device memory", most);
  add_legend(option, {"used at the peak", "allocated, not used"}, 12);
  return option;
}

/// Compares the least peaks, if other programs did the same work: "Headroom's least is 8.19 GiB (fp16), other
/// programs' 5.29 GiB (compiled): 55% more."
std::optional<std::string> compare_with_peers(const std::vector<MemoryRow>& rows) {
  const MemoryRow *ours = nullptr, *peers = nullptr;
  for (const MemoryRow& row : rows)
    if (const MemoryRow*& least = row.is_peer ? peers : ours; least == nullptr || row.peak_bytes < least->peak_bytes)
      least = &row;
  if (ours == nullptr || peers == nullptr || peers->peak_bytes <= 0) return {};
  const double share = static_cast<double>(ours->peak_bytes) / static_cast<double>(peers->peak_bytes) - 1;
  return fmt::format(
      "Headroom's least is {} ({}), other programs' {} ({}): {}.", label_bytes(static_cast<double>(ours->peak_bytes)),
      ours->name, label_bytes(static_cast<double>(peers->peak_bytes)), peers->name,
      share == 0 ? "the same"
                 : fmt::format("{}% {}", format_brief(100 * std::abs(share)), share > 0 ? "more" : "less"));
}

}  // namespace

Drawn memory_usage(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    if (scenario.subject.kind == SubjectKind::kKernel) continue;
    std::vector<MemoryRow> rows;
    std::vector<const Measurement*> shown;
    std::optional<std::int64_t> total;
    for (const Measurement* m : scenario.current) {
      if (!m->result->memory || !m->result->memory->peak_bytes) continue;
      rows.push_back({m->shown_name(), &*m->result->memory, *m->result->memory->peak_bytes,
                      baseline_peak_of(scenario, *m), m->is_peer});
      shown.push_back(m);
      if (!total) total = m->result->memory->device_total_bytes;
    }
    if (rows.size() < 2) continue;  // a single one is in the table
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
      chart.notes.push_back(fmt::format("The device has {}; {} uses {}% of it.",
                                        label_bytes(static_cast<double>(*total)), rows.front().name,
                                        format_brief(100 * peak / static_cast<double>(*total))));
    }
    if (std::optional<std::string> note = compare_with_peers(rows)) chart.notes.push_back(std::move(*note));
    note_revisions(chart.notes, shown);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out = "no two configurations of one work say how much memory they used";
  return drawn;
}

}  // namespace headroom::charts
