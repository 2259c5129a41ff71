#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/statistics/comparison.hpp"
#include "measure/tables/table.hpp"

/// Converts a Comparison to lines of a gate and to JSON.
namespace headroom {
namespace {

/// Additional remarks for the reader of a table, one line each.
std::vector<std::string> notes_of(const Comparison& comparison) {
  std::vector<std::string> notes = comparison.notes;
  for (const ComparedBenchmark& one : comparison.benchmarks)
    for (const std::string& note : one.notes) notes.push_back(fmt::format("note: {}: {}", one.name, note));
  if (!comparison.only_in_base.empty())
    notes.push_back(fmt::format("only in the base: {}", fmt::join(comparison.only_in_base, ", ")));
  if (!comparison.only_in_new.empty())
    notes.push_back(fmt::format("only in the new: {}", fmt::join(comparison.only_in_new, ", ")));
  for (const std::string& difference : comparison.forced)
    notes.push_back(fmt::format("forced, though they differ: {}", difference));
  const auto is_unpaired = [](const ComparedBenchmark& one) {
    return one.is_timed && one.is_own && !one.effect.paired;
  };
  if (std::ranges::any_of(comparison.benchmarks, is_unpaired))
    notes.emplace_back("stored times: running both binaries again alternately (bench --against) is better evidence");
  return notes;
}

constexpr std::string_view kUnknown = "unknown";  // revision of what another program measured

GateOutcome outcome_of(Verdict verdict, bool counts = true) {
  if (verdict == Verdict::kRegressed) return GateOutcome::kFailed;
  if (verdict == Verdict::kInconclusive) return counts ? GateOutcome::kUndecided : GateOutcome::kLeftOut;
  return GateOutcome::kPassed;
}

/// The CSV fields of the columns. A change is a ratio, or for some qualities a difference.
const std::vector<std::vector<std::string>> kComparisonFields = {{"base"},
                                                                 {"new"},
                                                                 {"ratio", "difference"},
                                                                 {"interval_low", "interval_high"},
                                                                 {"p"},
                                                                 {"base_processes", "new_processes"}};

Cell interval_cell_of(std::string shown, const std::optional<Interval>& interval) {
  if (!interval) return no_value(std::move(shown));
  return {std::move(shown), {exact_number(interval->low), exact_number(interval->high)}};
}

GateLine line_of_time(const ComparedBenchmark& one) {
  const Effect& effect = one.effect;
  const std::string processes = effect.paired ? fmt::format("{} pairs", effect.base_processes)
                                              : fmt::format("{}, {}", effect.base_processes, effect.new_processes);
  const std::string interval =
      effect.interval ? fmt::format("[{:.3f}, {:.3f}]", effect.interval->low, effect.interval->high) : "-";
  return {
      .name = one.name,
      .quantity = std::string(info_of(Quantity::kTime).words),
      .cells = {ms_cell(one.base_ms), ms_cell(one.new_ms),
                Cell(fmt::format("{:.3f}", effect.ratio), {exact_number(effect.ratio), ""}),
                interval_cell_of(interval, effect.interval),
                effect.interval ? number_cell(one.p, format_p(one.p)) : no_value(),
                Cell(processes, {fmt::format("{}", effect.base_processes), fmt::format("{}", effect.new_processes)})},
      .verdict = std::string(name_of(one.judged.verdict)),
      .why = one.judged.why,
      .outcome = outcome_of(one.judged.verdict),
      .unit = std::string(unit_of(Quantity::kTime))};
}

GateLine line_of_quantity(const ComparedBenchmark& benchmark, const ComparedQuantity& one) {
  const auto value = [&](const std::optional<double>& number) {
    return number ? number_cell(*number, format_quantity(one.quantity, *number)) : no_value();
  };
  const std::string change = one.change ? exact_number(*one.change) : "";
  const bool is_difference = info_of(one.quantity).is_difference;
  return {.name = benchmark.name,
          .quantity = words_of(one),
          .cells = {value(one.base), value(one.changed),
                    Cell(change_text(one), {is_difference ? "" : change, is_difference ? change : ""}),
                    interval_cell_of(interval_text(one), one.interval),
                    one.p ? number_cell(*one.p, format_p(*one.p)) : no_value(), no_value()},
          .verdict = std::string(name_of(one.judged.verdict)),
          .why = one.judged.why,
          .outcome = outcome_of(one.judged.verdict, one.counts),
          .is_unchanged = one.is_equal(),
          .unit = std::string(unit_of(one.quantity))};
}

/// " (p99 10%, peak memory 5%)": the limits of judged quantities other than time.
std::string list_limits(const Comparison& comparison) {
  std::vector<std::string> limits;
  for (const QuantityInfo& info : all_quantities()) {
    const auto is_judged = [&](const ComparedQuantity& one) {
      return one.quantity == info.quantity && (one.counts || one.judged.verdict != Verdict::kInconclusive);
    };
    const auto has = [&](const ComparedBenchmark& one) { return std::ranges::any_of(one.quantities, is_judged); };
    if (std::ranges::any_of(comparison.benchmarks, has))
      limits.push_back(
          fmt::format("{} {}", info.words, format_limit(info.quantity, comparison.limits.of(info.quantity))));
  }
  return limits.empty() ? "" : fmt::format(" ({})", fmt::join(limits, ", "));
}

nlohmann::json change_json(const Interval& interval) { return {{"low", interval.low}, {"high", interval.high}}; }

nlohmann::json quantity_json(const ComparedQuantity& one, const Limits& limits) {
  nlohmann::json entry = {{"quantity", info_of(one.quantity).name},
                          {"limit", limits.of(one.quantity)},
                          {"counts", one.counts},
                          {"verdict", name_of(one.judged.verdict)},
                          {"why", one.judged.why}};
  if (!one.against.empty()) entry["against"] = one.against;
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) entry[key] = *value;
  };
  add("base", one.base);
  add("new", one.changed);
  add(info_of(one.quantity).is_difference ? "difference" : "ratio", one.change);
  add("p", one.p);
  if (one.interval) entry["interval"] = change_json(*one.interval);
  return entry;
}

}  // namespace

GateReport report_of(const Comparison& comparison) {
  GateReport report{.command = "headroom compare",
                    .columns = {"base", "new", "new/base", "95% interval", "p", "processes"},
                    .fields = kComparisonFields,
                    .lines = {},
                    .notes = notes_of(comparison),
                    .summary = {}};
  std::map<Verdict, std::int64_t> counts;
  for (const ComparedBenchmark& one : comparison.benchmarks) {
    if (one.is_timed) {
      report.lines.push_back(line_of_time(one));
      ++counts[one.judged.verdict];
    }
    for (const ComparedQuantity& quantity : one.quantities) {
      report.lines.push_back(line_of_quantity(one, quantity));
      if (report.lines.back().outcome != GateOutcome::kLeftOut) ++counts[quantity.judged.verdict];
    }
  }
  std::vector<std::string> parts;
  for (const Verdict verdict : {Verdict::kRegressed, Verdict::kImproved, Verdict::kOk, Verdict::kInconclusive})
    if (counts[verdict] > 0) parts.push_back(fmt::format("{} {}", counts[verdict], name_of(verdict)));
  const bool is_known = comparison.new_revision != kUnknown || comparison.base_revision != kUnknown;
  report.summary =
      fmt::format("{}threshold {}{}: {}",
                  is_known ? fmt::format("{} against {}, ", comparison.new_revision, comparison.base_revision) : "",
                  format_limit(Quantity::kTime, comparison.rule.threshold), list_limits(comparison),
                  parts.empty() ? "nothing was judged" : fmt::format("{}", fmt::join(parts, ", ")));
  return report;
}

ExitCode exit_code_of(const Comparison& comparison) { return exit_code_of(report_of(comparison)); }

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json benchmarks = nlohmann::json::array();
  for (const ComparedBenchmark& one : comparison.benchmarks) {
    const Effect& effect = one.effect;
    nlohmann::json& entry = benchmarks.emplace_back(nlohmann::json{{"name", one.name}, {"notes", one.notes}});
    if (one.is_timed)
      entry.update({{"base_ms", one.base_ms},
                    {"new_ms", one.new_ms},
                    {"ratio", effect.ratio},
                    {"p", one.p},
                    {"base_processes", effect.base_processes},
                    {"new_processes", effect.new_processes},
                    {"paired", effect.paired},
                    {"verdict", name_of(one.judged.verdict)},
                    {"why", one.judged.why}});
    if (effect.interval) entry["interval"] = change_json(*effect.interval);
    entry["quantities"] = nlohmann::json::array();
    for (const ComparedQuantity& quantity : one.quantities)
      entry["quantities"].push_back(quantity_json(quantity, comparison.limits));
  }
  return {{"schema", kComparisonSchema},
          {"base_revision", comparison.base_revision},
          {"new_revision", comparison.new_revision},
          {"threshold", comparison.rule.threshold},
          {"alpha", comparison.rule.alpha},
          {"benchmarks", std::move(benchmarks)},
          {"only_in_base", comparison.only_in_base},
          {"only_in_new", comparison.only_in_new},
          {"forced", comparison.forced},
          {"notes", comparison.notes}};
}

}  // namespace headroom
