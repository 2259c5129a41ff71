#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "measure/ladder.hpp"
#include "measure/stages.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

const QualityRecord* find_quality(const Rung& rung, std::string_view metric) {
  const auto found = std::ranges::find(rung.result.quality, metric, &QualityRecord::metric);
  return found == rung.result.quality.end() ? nullptr : &*found;
}

std::string quality_cell(const Rung& rung, std::string_view metric, auto format) {
  const QualityRecord* record = find_quality(rung, metric);
  if (record == nullptr) return "-";
  return record->value ? format(*record->value) : record->note.value_or("-");
}

/// What is on, and what declined: "arena+tile", "arena (fp8 declined)", "fp8 (declined)".
std::string label_of(const Rung& rung) {
  const Configuration& configuration = rung.result.configuration;
  if (configuration.declined.empty()) return rung.name;
  if (configuration.applied.empty()) return fmt::format("{} (declined)", rung.name);
  std::vector<std::string> declined;
  for (const DeclinedSwitch& one : configuration.declined) declined.push_back(one.name);
  return fmt::format("{} ({} declined)", fmt::join(configuration.applied, "+"), fmt::join(declined, ", "));
}

bool is_unsettled(const Rung& rung) { return rung.result.unsettled.has_value() && !is_out_of_memory(rung.result); }

std::string factor_text(const Factor& factor) {
  return factor.interval ? fmt::format("{} {}", format_factor(factor.value), format_interval(*factor.interval))
                         : format_factor(factor.value);
}

std::string on_before_cell(const Ladder& ladder, const Rung& rung) {
  if (rung.switches.empty()) return "-";
  if (rung.result.same_as) return "declined";
  if (is_unsettled(rung) || is_unsettled(before(ladder, rung)) || rung.on_before.rounds == 0) return "unsettled";
  return format_factor(rung.on_before.value);
}

std::vector<std::string> on_baseline_cells(const Ladder& ladder, const Rung& rung) {
  if (rung.switches.empty() || rung.result.same_as == ladder.rungs.front().name) return {"-", "-"};
  if (is_unsettled(rung)) return {"unsettled", "-"};
  return {format_factor(rung.on_baseline.value),
          rung.on_baseline.interval ? format_interval(*rung.on_baseline.interval) : "-"};
}

std::size_t rounds_of(const Rung& rung, std::string_view series) {
  const auto found = std::ranges::find(rung.result.trials, series, &TrialSeries::what);
  return found == rung.result.trials.end() ? 0 : split_visits(*found).size();
}

/// What the reader of the table should know besides.
std::string remarks(const Ladder& ladder) {
  std::string text, same, left_out, too_large, computed;
  for (const Rung& rung : ladder.rungs) {
    if (is_out_of_memory(rung.result))
      too_large += fmt::format("  {}: {}\n", rung.name, rung.result.unsettled.value_or("it does not fit"));
    if (rung.result.same_as) {
      same += fmt::format("  {} is {}\n", rung.name, *rung.result.same_as);
      continue;
    }
    if (const std::vector<double>& share = rung.result.computed_share; !share.empty())
      computed += fmt::format("  {}: {} of {} on average\n", rung.name,
                              format_significant(std::reduce(share.begin(), share.end())), share.size());
    if (is_unsettled(rung)) text += fmt::format("  {}: {}\n", rung.name, *rung.result.unsettled);
    const TrialSeries* const series = find_timed_series(rung.result);
    if (series == nullptr) continue;
    if (const std::size_t out = rounds_of(rung, series->what + "_left_out"); out > 0)
      left_out += fmt::format("  {}: {} of {}\n", rung.name, out, out + rounds_of(rung, series->what));
  }
  if (!text.empty()) text = "\nunsettled, so that nothing is claimed of it:\n" + text;
  if (!computed.empty()) text += "\nsteps that were computed, and not reused:\n" + computed;
  if (!left_out.empty()) text += "\nvisits that were disturbed, measured again and left out:\n" + left_out;
  if (!too_large.empty()) text += "\nnot measured, because there is too little memory:\n" + too_large;
  if (!same.empty())
    text += "\nnot measured, because what it adds declined; the figures are the other rung's:\n" + same;
  return text;
}

std::string synergy(const Ladder& ladder) {
  if (ladder.synergy)
    return fmt::format("\nsynergy: all together {}, product of each alone {}; their quotient {}\n",
                       factor_text(*ladder.combined), factor_text(*ladder.product_of_singles),
                       factor_text(*ladder.synergy));
  const std::string unknown = "unsettled";
  return fmt::format("\nsynergy: all together {}, product of each alone {}\n",
                     ladder.combined ? factor_text(*ladder.combined) : unknown,
                     ladder.product_of_singles ? factor_text(*ladder.product_of_singles) : unknown);
}

/// A measure of quality that has a column where any rung has it.
struct QualityColumn {
  const char* metric;
  const char* header;
  std::string (*format)(double value);
};
const QualityColumn kQualityColumns[] = {
    {"psnr_db", "PSNR", [](double value) { return fmt::format("{:.1f} dB", value); }},
    {"relative_l2", "relative L2", [](double value) { return format_significant(value); }},
    {"flip", "FLIP", [](double value) { return format_significant(value); }},
    {"flicker", "flicker", [](double value) { return format_factor(value); }},
    {"accuracy", "accuracy", [](double value) { return fmt::format("{:.1f}%", 100 * value); }},
    {"frechet_distance", "Frechet", [](double value) { return format_significant(value); }}};

std::vector<QualityColumn> quality_columns(const Ladder& ladder) {
  std::vector<QualityColumn> columns;
  for (const QualityColumn& column : kQualityColumns)
    if (std::ranges::any_of(ladder.rungs,
                            [&](const Rung& rung) { return find_quality(rung, column.metric) != nullptr; }))
      columns.push_back(column);
  return columns;
}

/// What the rungs of a pass are timed by: "a pass", "a frame". Empty where they make images.
std::string pass_in_words(const Ladder& ladder) {
  const Result& baseline = ladder.rungs.front().result;
  if (!is_of_pass(baseline)) return {};
  return baseline.subject.request.value("pass", "") == "frame" ? "a frame" : "a pass";
}

/// A row of the table of a rung that was measured.
std::vector<std::string> cells_of(const Ladder& ladder, const Rung& rung, std::span<const QualityColumn> columns) {
  const Summary& step = timed_series(rung.result).statistics;
  std::vector<std::string> cells = {label_of(rung) + (is_unsettled(rung) ? " ?" : ""), format_ms(step.median),
                                    step.median_interval ? format_interval_ms(*step.median_interval) : "-"};
  if (!is_of_pass(rung.result)) {
    cells.push_back(format_ms(rung.image_ms));
    cells.push_back(rung.image_interval_ms ? format_interval_ms(*rung.image_interval_ms) : "-");
  }
  cells.push_back(on_before_cell(ladder, rung));
  for (std::string& cell : on_baseline_cells(ladder, rung)) cells.push_back(std::move(cell));
  cells.push_back(format_bytes(static_cast<std::uint64_t>(rung.result.memory->peak_bytes.value_or(0))));
  for (const QualityColumn& column : columns) cells.push_back(quality_cell(rung, column.metric, column.format));
  return cells;
}

}  // namespace

std::string to_table(const Ladder& ladder) {
  const std::vector<QualityColumn> quality = quality_columns(ladder);
  const std::string pass = pass_in_words(ladder);
  std::vector<std::string> headers = {"a step", "95% interval", "an image", "95% interval"};
  if (!pass.empty()) headers = {pass, "95% interval"};
  headers.insert(headers.end(), {"on the rung before", "on baseline", "95% interval", "peak memory"});
  for (const QualityColumn& column : quality) headers.emplace_back(column.header);
  Table table;
  table.add_column("rung", Align::kLeft);
  for (const std::string& header : headers) table.add_column(header);
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    if (i == 1 || (rung.cumulative && !ladder.rungs[i - 1].cumulative)) table.add_rule();
    std::vector<std::string> cells = is_out_of_memory(rung.result)
                                         ? std::vector<std::string>{rung.name, "out of memory"}
                                         : cells_of(ladder, rung, quality);
    cells.resize(1 + headers.size(), "-");
    table.add_row(std::move(cells));
  }
  std::string text = table.render() + remarks(ladder);
  std::vector<std::pair<std::string, const Result*>> results;
  for (const Rung& rung : ladder.rungs)
    if (!is_out_of_memory(rung.result) && !rung.result.same_as) results.emplace_back(label_of(rung), &rung.result);
  if (const std::string stages = to_stage_table(results); !stages.empty()) text += "\n" + stages;
  if (ladder.rungs.size() > 2) text += synergy(ladder);
  return text;
}

}  // namespace headroom
