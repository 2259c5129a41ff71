#include "report/tables.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "measure/quality/quality_loss.hpp"
#include "report/chart_names.hpp"
#include "report/ladder_view.hpp"
#include "report/view.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTablePrefix = "report_table_";
constexpr std::size_t kMostOfTitle = 200;  // letters in a file name
constexpr TableFormat kFileFormats[] = {TableFormat::kCsv, TableFormat::kMarkdown, TableFormat::kLatex};

using FactorsOnBaseline = std::map<const Measurement*, std::optional<Estimate>>;

FactorsOnBaseline factors_in(const Dataset& dataset) {
  FactorsOnBaseline factors;
  for (const LadderView& ladder : ladders_of(dataset))
    for (const RungView* rung : ladder.all()) factors.emplace(rung->measurement, rung->on_baseline);
  return factors;
}

/// Measurements of one table.
struct TableRows {
  std::vector<std::pair<const Scenario*, const Measurement*>> rows = {};
  bool says_work = false;      ///< the rows are of several works
  bool says_hardware = false;  ///< the rows are of several machines

  [[nodiscard]] bool has_tags() const {
    return std::ranges::any_of(rows, [](const auto& row) { return !row.second->result->tags.empty(); });
  }
  /// Whether a work is more than the name of its only configuration, as that of another program's benchmark is.
  [[nodiscard]] bool has_works() const {
    return std::ranges::any_of(rows, [](const auto& row) { return row.first->work != row.second->shown_name(); });
  }

  /// Whether two rows differ in nothing that a table shows but their figures.
  [[nodiscard]] bool has_repetitions() const {
    std::set<std::tuple<const Scenario*, std::string>> seen;
    return !std::ranges::all_of(
        rows, [&](const auto& row) { return seen.emplace(row.first, row.second->shown_name()).second; });
  }

  /// Metrics of which any measurement has a record, in the order in which they first occur.
  [[nodiscard]] std::vector<std::string> metrics() const {
    std::vector<std::string> names;
    for (const auto& [scenario, m] : rows)
      for (const QualityRecord& record : m->result->quality)
        if (std::ranges::find(names, record.metric) == names.end()) names.push_back(record.metric);
    return names;
  }
};

/// "PSNR in dB"; the words of a metric that this program does not know, or of a difference.
std::string header_of(const std::string& metric) {
  if (const QualityMetric* known = find_metric(metric))
    return known->unit.empty() ? std::string(known->title) : fmt::format("{} in {}", known->title, known->unit);
  std::string words = metric;
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::vector<Column> columns_of(const TableRows& table, const std::vector<std::string>& metrics) {
  std::vector<Column> columns;
  const auto add_text = [&](const char* header, Shown shown = Shown::kEverywhere) {
    columns.push_back({.header = header, .align = Align::kLeft, .shown = shown});
  };
  add_text("work", table.says_work && table.has_works() ? Shown::kEverywhere : Shown::kOnlyInCsv);
  add_text("machine", table.says_hardware ? Shown::kEverywhere : Shown::kOnlyInCsv);
  add_text("configuration");
  add_text("unit");
  columns.push_back({.header = "median", .fields = {"median_ms"}});
  columns.push_back({.header = "95% interval", .fields = {"median_low_ms", "median_high_ms"}});
  columns.push_back({.header = "on baseline", .fields = {"factor_on_baseline"}});
  columns.push_back({.header = "95% interval", .fields = {"factor_on_baseline_low", "factor_on_baseline_high"}});
  columns.push_back({.header = "peak memory", .fields = {"peak_memory_bytes"}});
  for (const std::string& metric : metrics) {
    columns.push_back({.header = header_of(metric), .fields = {metric, metric + "_low", metric + "_high"}});
  }
  columns.push_back({.header = "n"});
  add_text("tags", table.has_tags() ? Shown::kEverywhere : Shown::kOnlyInCsv);
  for (const char* const field : {"state", "source", "version", "revision", "measured"})
    add_text(field, Shown::kOnlyInCsv);
  add_text("file", table.has_repetitions() ? Shown::kEverywhere : Shown::kOnlyInCsv);
  return columns;
}

Cell metric_cell(const Result& result, const std::string& metric) {
  const auto found = std::ranges::find(result.quality, metric, &QualityRecord::metric);
  if (found == result.quality.end()) return no_value();
  if (!found->value) return no_value(found->note.value_or("-"));
  const auto& interval = found->interval;
  return {interval ? fmt::format("{} {}", format_significant(*found->value), format_interval(*interval))
                   : format_significant(*found->value),
          {exact_number(*found->value), interval ? exact_number(interval->low) : "",
           interval ? exact_number(interval->high) : ""}};
}

std::vector<Cell> row_cells(const Scenario& scenario, const Measurement& m, const std::optional<Estimate>& factor,
                            const std::vector<std::string>& metrics) {
  const Result& result = *m.result;
  std::vector<Cell> cells = {scenario.work, scenario.hardware, m.shown_name()};
  if (m.timing) {
    cells.insert(cells.end(),
                 {Cell(m.time().unit), ms_cell(m.time().median_ms), interval_ms_cell(m.time().interval_ms)});
  } else {
    cells.insert(cells.end(), {no_value(), no_value("not timed"), no_value()});
  }
  if (m.unsettled)
    cells.insert(cells.end(), {no_value("unsettled"), no_value()});
  else if (factor && m.is_baseline())
    cells.insert(cells.end(), {baseline_cell(), no_value()});
  else if (factor)
    cells.insert(cells.end(), {factor_cell(factor->value), interval_cell(factor->interval)});
  else
    cells.insert(cells.end(), {no_value(), no_value()});
  cells.push_back(bytes_cell(result.memory ? result.memory->peak_bytes : std::nullopt));
  for (const std::string& metric : metrics) cells.push_back(metric_cell(result, metric));
  cells.push_back(m.timing ? count_cell(std::ssize(m.time().trials_ms)) : no_value());
  cells.emplace_back(fmt::format("{}", fmt::join(result.tags, "; ")));
  cells.insert(cells.end(), {Cell(m.unsettled ? "unsettled: " + *m.unsettled
                                  : m.timing  ? "settled"
                                              : "not timed"),
                             Cell(result.source.name), Cell(result.source.version), Cell(m.revision()),
                             Cell(m.file->created), Cell(m.path)});
  return cells;
}

Table table_of(const TableRows& rows, const FactorsOnBaseline& factors) {
  const std::vector<std::string> metrics = rows.metrics();
  Table table;
  for (Column& column : columns_of(rows, metrics)) table.add_column(std::move(column));
  for (const auto& [scenario, m] : rows.rows) {
    const auto factor = factors.find(m);
    table.add_row(row_cells(*scenario, *m, factor == factors.end() ? std::nullopt : factor->second, metrics));
  }
  return table;
}

}  // namespace

std::vector<ReportTable> report_tables(const Dataset& dataset) {
  const FactorsOnBaseline factors = factors_in(dataset);
  TableRows all{.says_work = true, .says_hardware = true};
  std::vector<ReportTable> tables;
  std::map<std::string, int> taken;
  for (const View& view : views_of(dataset)) {
    TableRows rows{.says_work = view.all().size() > 1};
    for (const Scenario* const scenario : view.all()) {
      for (const Measurement* const m : scenario->all) all.rows.emplace_back(scenario, m);
      for (const Measurement* const m : scenario->current) rows.rows.emplace_back(scenario, m);
    }
    if (rows.rows.size() < 2) continue;
    std::string title = fmt::format("{} on {}", view.title, view.hardware);
    std::string file = fmt::format("{}{}", kTablePrefix, file_slug(title, kMostOfTitle));
    if (const int before = taken[file]++; before > 0) file += fmt::format("-{}", before + 1);
    tables.push_back(ReportTable{.file = std::move(file), .title = std::move(title), .table = table_of(rows, factors)});
  }
  tables.insert(tables.begin(), ReportTable{.file = fmt::format("{}measurements", kTablePrefix),
                                            .title = "All measurements",
                                            .table = table_of(all, factors)});
  return tables;
}

bool is_report_table(std::string_view file) {
  return file.starts_with(kTablePrefix) &&
         std::ranges::any_of(kFileFormats, [&](TableFormat format) { return file.ends_with(suffix_of(format)); });
}

std::vector<std::string> write_report_tables(const Dataset& dataset, const fs::path& folder,
                                             const std::set<TableFormat>& formats) {
  std::vector<std::string> files;
  if (!formats.empty())
    for (const auto& [file, title, table] : report_tables(dataset)) {
      for (const TableFormat format : formats) {
        files.push_back(file + std::string(suffix_of(format)));
        Printout printout;
        printout.add(title + "\n");
        printout.add(table);
        write_file_atomically(folder / files.back(), std::string_view(printout.to_string(format)));
      }
    }
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_report_table(name) && std::ranges::find(files, name) == files.end()) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) {
    std::error_code error;
    if (!fs::remove(path, error))
      fail("{}: a table of earlier results cannot be removed: {}", path.string(), error.message());
  }
  return files;
}

}  // namespace headroom
