#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "measure/protocol/ladder.hpp"
#include "measure/protocol/stages.hpp"
#include "measure/quality/quality_loss.hpp"
#include "measure/results/timing.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

const QualityRecord* find_quality(const Rung& rung, std::string_view metric) {
  const auto found = std::ranges::find(rung.result.quality, metric, &QualityRecord::metric);
  return found == rung.result.quality.end() ? nullptr : &*found;
}

Cell quality_cell(const Rung& rung, std::string_view metric, auto format) {
  const QualityRecord* record = find_quality(rung, metric);
  if (record == nullptr) return no_value();
  if (!record->value) return no_value(record->note.value_or("-"));
  return number_cell(*record->value, format(*record->value));
}

/// The applied and the declined switches: "arena+tile", "arena (fp8 declined)", "fp8 (declined)".
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

Cell on_before_cell(const Ladder& ladder, const Rung& rung) {
  if (rung.switches.empty()) return no_value();
  if (rung.result.same_as) return no_value("declined");
  if (is_unsettled(rung) || is_unsettled(before(ladder, rung)) || rung.on_before.rounds == 0)
    return no_value("unsettled");
  return factor_cell(rung.on_before.value);
}

std::vector<Cell> on_baseline_cells(const Ladder& ladder, const Rung& rung) {
  if (rung.switches.empty()) return {baseline_cell(), no_value()};
  if (rung.result.same_as == ladder.rungs.front().name) return {no_value(), no_value()};
  if (is_unsettled(rung)) return {no_value("unsettled"), no_value()};
  return {factor_cell(rung.on_baseline.value), interval_cell(rung.on_baseline.interval)};
}

std::size_t rounds_of(const Rung& rung, std::string_view series) {
  const TrialSeries* const found = find_series(rung.result, series);
  return found == nullptr ? 0 : split_visits(*found).size();
}

/// What is judged on too few images, one line for each metric.
std::string few_images(const Ladder& ladder) {
  std::vector<std::string> lines;
  for (const Rung& rung : ladder.rungs)
    for (const QualityRecord& record : rung.result.quality)
      if (const std::string few = too_few_images(record); !few.empty() && std::ranges::find(lines, few) == lines.end())
        lines.push_back(few);
  return lines.empty() ? ""
                       : fmt::format("\nquality that is not settled (--quality):\n  {}\n", fmt::join(lines, "\n  "));
}

/// Additional remarks for the reader of the table.
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
  if (!text.empty()) text = "\nunsettled: too noisy to report:\n" + text;
  if (!computed.empty()) text += "\nsteps that were computed, and not reused:\n" + computed;
  if (!left_out.empty()) text += "\nvisits that were disturbed, measured again and left out:\n" + left_out;
  text += few_images(ladder);
  if (!too_large.empty()) text += "\nnot measured, because there is too little memory:\n" + too_large;
  if (!same.empty())
    text += "\nnot measured: what it adds declined, so that the figures are the other rung's:\n" + same;
  return text;
}

/// Names the rungs whose factor differs from the quotient of the times in the table by more than half its interval.
std::string of_rounds(const Ladder& ladder) {
  const Rung& baseline = ladder.rungs.front();
  if (is_out_of_memory(baseline.result) || is_unsettled(baseline)) return {};
  std::vector<std::string> differ;
  for (const Rung& rung : ladder.rungs) {
    const std::optional<Interval>& interval = rung.on_baseline.interval;
    if (rung.switches.empty() || rung.result.same_as || is_out_of_memory(rung.result) || is_unsettled(rung) ||
        !interval || rung.image_ms <= 0)
      continue;
    const double of_times = baseline.image_ms / rung.image_ms;
    if (std::abs(of_times - rung.on_baseline.value) > (interval->high - interval->low) / 2)
      differ.push_back(fmt::format("{} ({})", rung.name, format_factor(of_times)));
  }
  return differ.empty() ? ""
                        : fmt::format(
                              "\nfactors compare each round with the baseline around it, times are of all rounds; the "
                              "quotient of the times differs for {}\n",
                              fmt::join(differ, ", "));
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

/// A quality metric that gets a column if any rung has it.
struct QualityColumn {
  const char* metric;
  const char* header;
  int priority;  ///< Column::priority
  std::string (*format)(double value);
};
const QualityColumn kQualityColumns[] = {
    {"psnr_db", "PSNR", 6, [](double value) { return fmt::format("{:.1f} dB", value); }},
    {"relative_l2", "relative L2", 1, [](double value) { return format_significant(value); }},
    {"flip", "FLIP", 5, [](double value) { return format_significant(value); }},
    {"flicker", "flicker", 1, [](double value) { return format_factor(value); }},
    {"accuracy", "accuracy", 1, [](double value) { return fmt::format("{:.1f}%", 100 * value); }},
    {"frechet_distance", "Frechet", 3, [](double value) { return format_significant(value); }}};

std::vector<QualityColumn> quality_columns(const Ladder& ladder) {
  std::vector<QualityColumn> columns;
  for (const QualityColumn& column : kQualityColumns)
    if (std::ranges::any_of(ladder.rungs,
                            [&](const Rung& rung) { return find_quality(rung, column.metric) != nullptr; }))
      columns.push_back(column);
  return columns;
}

/// The name of a timed pass: "a pass", "a frame". Empty if the rungs make images.
std::string pass_in_words(const Ladder& ladder) {
  const Result& baseline = ladder.rungs.front().result;
  if (!is_of_pass(baseline)) return {};
  return baseline.subject.request.value("pass", "") == "frame" ? "a frame" : "a pass";
}

/// The state of a rung in CSV: settled, or the reason why not.
std::string state_of(const Rung& rung) {
  if (rung.result.same_as) return "same as " + *rung.result.same_as;
  if (is_out_of_memory(rung.result)) return "out of memory";
  return is_unsettled(rung) ? "unsettled: " + *rung.result.unsettled : "settled";
}

/// The label, with a mark if its times are not settled.
std::string marked_label_of(const Rung& rung) { return label_of(rung) + (is_unsettled(rung) ? " ?" : ""); }

/// The label, and in CSV its parts.
Cell rung_cell(const Rung& rung) {
  const Configuration& configuration = rung.result.configuration;
  std::vector<std::string> declined;
  for (const DeclinedSwitch& one : configuration.declined) declined.push_back(one.name);
  return {is_out_of_memory(rung.result) ? rung.name : marked_label_of(rung),
          {rung.name, fmt::format("{}", fmt::join(configuration.applied, "+")),
           fmt::format("{}", fmt::join(declined, "+")), state_of(rung)}};
}

/// Priorities are chosen so that 80 columns always show an image, the factor on the baseline and the loss of quality.
std::vector<Column> ladder_columns(const std::string& pass, const std::vector<QualityColumn>& quality) {
  std::vector<Column> columns = {
      {.header = "rung", .align = Align::kLeft, .fields = {"rung", "applied", "declined", "state"}, .least = 18}};
  if (pass.empty()) {
    columns.push_back({.header = "a step", .priority = 4, .fields = {"step_ms"}});
    columns.push_back({.header = "95% interval", .priority = 8, .fields = {"step_low_ms", "step_high_ms"}});
    columns.push_back({.header = "an image", .fields = {"image_ms"}});
    columns.push_back({.header = "95% interval", .priority = 5, .fields = {"image_low_ms", "image_high_ms"}});
  } else {
    columns.push_back({.header = pass, .fields = {"pass_ms"}});
    columns.push_back({.header = "95% interval", .priority = 5, .fields = {"pass_low_ms", "pass_high_ms"}});
  }
  columns.push_back({.header = "on the rung before", .priority = 7, .fields = {"factor_on_rung_before"}});
  columns.push_back({.header = "on baseline", .fields = {"factor_on_baseline"}});
  columns.push_back({.header = "95% interval", .fields = {"factor_on_baseline_low", "factor_on_baseline_high"}});
  columns.push_back({.header = "peak memory", .priority = 2, .fields = {"peak_memory_bytes"}});
  for (const QualityColumn& column : quality)
    columns.push_back({.header = column.header, .priority = column.priority, .fields = {column.metric}});
  return columns;
}

/// A table row of a measured rung.
std::vector<Cell> cells_of(const Ladder& ladder, const Rung& rung, std::span<const QualityColumn> quality) {
  const TrialSeries& step = timed_series(rung.result);
  std::vector<Cell> cells = {rung_cell(rung), ms_cell(step.statistics.median), interval_ms_cell(interval_of(step))};
  if (!is_of_pass(rung.result)) {
    cells.push_back(ms_cell(rung.image_ms));
    cells.push_back(interval_ms_cell(rung.image_interval_ms));
  }
  cells.push_back(on_before_cell(ladder, rung));
  for (Cell& cell : on_baseline_cells(ladder, rung)) cells.push_back(std::move(cell));
  cells.push_back(bytes_cell(rung.result.memory->peak_bytes));
  for (const QualityColumn& column : quality) cells.push_back(quality_cell(rung, column.metric, column.format));
  return cells;
}

/// A row of a rung that did not fit: the reason takes the place of its time.
std::vector<Cell> out_of_memory_cells(const Rung& rung, bool is_pass) {
  std::vector<Cell> cells = {rung_cell(rung)};
  if (!is_pass) cells.insert(cells.end(), {no_value(), no_value()});
  cells.push_back(no_value("out of memory"));
  return cells;
}

/// One row for each rung, with the CSV fields of its stages.
Table rung_table(const Ladder& ladder) {
  const std::vector<QualityColumn> quality = quality_columns(ladder);
  const std::string pass = pass_in_words(ladder);
  std::vector<const Result*> results;
  for (const Rung& rung : ladder.rungs) results.push_back(&rung.result);
  const std::vector<std::string> stages = stages_of(results);
  Table table;
  std::vector<Column> columns = ladder_columns(pass, quality);
  const std::size_t of_rung = columns.size();
  for (Column& column : columns) table.add_column(std::move(column));
  for (Column& column : stage_fields(stages)) table.add_column(std::move(column));
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    if (i == 1 || (rung.cumulative && !ladder.rungs[i - 1].cumulative)) table.add_rule();
    std::vector<Cell> cells =
        is_out_of_memory(rung.result) ? out_of_memory_cells(rung, !pass.empty()) : cells_of(ladder, rung, quality);
    cells.resize(of_rung, no_value());
    for (Cell& cell : stage_values(rung.result, stages)) cells.push_back(std::move(cell));
    table.add_row(std::move(cells));
  }
  return table;
}

}  // namespace

Printout to_table(const Ladder& ladder) {
  Printout printout(rung_table(ladder));
  printout.add(remarks(ladder));
  printout.add(of_rounds(ladder));
  std::vector<std::pair<std::string, const Result*>> results;
  for (const Rung& rung : ladder.rungs)
    if (!is_out_of_memory(rung.result) && !rung.result.same_as)
      results.emplace_back(marked_label_of(rung), &rung.result);
  if (const std::optional<Table> stages = to_stage_table(results)) {
    printout.add("\n");
    printout.add(*stages);
  }
  if (ladder.rungs.size() > 2) printout.add(synergy(ladder));
  return printout;
}

}  // namespace headroom
