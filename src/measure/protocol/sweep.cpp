#include "measure/protocol/sweep.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/files/file_lock.hpp"
#include "measure/protocol/generation.hpp"
#include "measure/protocol/stages.hpp"
#include "measure/results/fingerprint.hpp"
#include "measure/results/timing.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

constexpr const char* kBaseline = "baseline";  // SweepCell::switches

const Result* find_cell(const ResultFile& file, const std::string& id) {
  const auto found = std::ranges::find(file.results, id, &Result::id);
  return found == file.results.end() ? nullptr : &*found;
}

/// Relative time of a cell: tokens of all images in all steps, with at least 25 steps.
double work_of(const SweepCell& cell) {
  const auto pixels = static_cast<double>(std::max<std::int64_t>(1, cell.size.height * cell.size.width));
  return pixels * static_cast<double>(cell.batch) * static_cast<double>(std::max<std::int64_t>(25, cell.steps));
}

/// Whether a stored cell was measured with these switches. Switches of a preset that are for another device may be
/// missing.
bool is_of_switches(const Result& cell, const std::vector<std::string>& switches) {
  const std::vector<std::string>& asked = cell.configuration.asked;
  return asked.empty() == switches.empty() && std::ranges::all_of(asked, [&](const std::string& name) {
           return std::ranges::find(switches, name) != switches.end();
         });
}

/// Why an existing cell must be measured again; empty if it is kept.
std::string why_again(const Result& cell, const SweepTask& task) {
  if (is_out_of_memory(cell)) return {};
  const TrialSeries* const steps = find_series(cell, "step");
  if (steps == nullptr || find_series(cell, "image") == nullptr) return "it has no times of steps and images";
  const auto trials = std::ssize(steps->time_ms);
  const auto processes = std::ssize(std::set(steps->process.begin(), steps->process.end()));
  if (processes < task.processes)
    return fmt::format("it was measured in {} of {} processes", processes, task.processes);
  const std::int64_t wanted = cell.computed_share.empty() ? task.trials : std::min(task.trials, kFewestGenerations);
  if (trials < wanted * processes) return fmt::format("it has {} of {} steps", trials, wanted * processes);
  return {};
}

void add_cell(ResultFile& file, ResultFile cell, const std::string& id) {
  HR_CHECK_EQ(cell.results.size(), std::size_t{1});
  file.created = cell.created;
  file.plans.merge(cell.plans);
  cell.results.front().id = id;
  if (const auto before = std::ranges::find(file.results, id, &Result::id); before != file.results.end())
    *before = std::move(cell.results.front());
  else
    file.results.push_back(std::move(cell.results.front()));
}

/// A sweep's file and its remaining work. The file is locked against other writers.
class Sweep {
 public:
  Sweep(const std::filesystem::path& path, const SweepTask& task, const SweepCalls& calls)
      : path_(path), task_(task), calls_(calls), lock_(path) {
    if (std::filesystem::exists(path)) file_ = read_results(path);
    if (file_) (void)check_machine(task.machine);
    for (const SweepCell& cell : task.cells)
      if (!is_kept(cell)) {
        left_.push_back(&cell);
        work_ += work_of(cell);
      }
  }

  ResultFile finish() {
    double done = 0;
    for (const SweepCell* cell : left_) {
      const std::size_t number = static_cast<std::size_t>(cell - task_.cells.data()) + 1;
      if (calls_.on_progress) calls_.on_progress({cell, number, task_.cells.size(), done / work_});
      measure(*cell);
      done += work_of(*cell);
    }
    if (calls_.on_progress) calls_.on_progress({nullptr, task_.cells.size(), task_.cells.size(), 1});
    HR_CHECK(file_.has_value());
    return std::move(*file_);
  }

 private:
  bool is_kept(const SweepCell& cell) {
    const std::string id = cell_id(task_, cell);
    const Result* const found = file_ ? find_cell(*file_, id) : nullptr;
    if (found == nullptr) return false;
    const auto [asked, switches] = calls_.work(cell);
    const Subject& there = found->subject;
    if (there.name != asked.name || there.request != asked.request)
      fail("'{}' in {} is of other work than that cell of this sweep, {} {} and not {} {}; write to another file", id,
           path_.string(), there.name, there.request.dump(), asked.name, asked.request.dump());
    if (!is_out_of_memory(*found) && !is_of_switches(*found, switches))
      fail("'{}' in {} is of other switches than that cell of this sweep, '{}' and not '{}'; write to another file", id,
           path_.string(), fmt::join(found->configuration.asked, ","), fmt::join(switches, ","));
    const std::string why = why_again(*found, task_);
    if (!why.empty() && calls_.on_again) calls_.on_again(id, why);
    return why.empty();
  }

  /// Checks that the file is of this machine; otherwise throws Error unless `force` is set.
  bool check_machine(const Machine& machine) const {
    const std::vector<std::string> differences = origin_differences(file_->machine, machine);
    if (!differences.empty() && !task_.force)
      fail("{} was begun elsewhere, and one sweep should not mix machines or builds (--force goes on all the same): {}",
           path_.string(), fmt::join(differences, "; "));
    return differences.empty();
  }

  void measure(const SweepCell& cell) {
    ResultFile measured = calls_.run(cell);
    if (!file_)
      file_ = ResultFile{.created = measured.created, .machine = measured.machine, .plans = {}, .results = {}};
    else if (!check_machine(measured.machine))
      measured.results.front().tags.emplace_back(kOtherMachineTag);
    add_cell(*file_, std::move(measured), cell_id(task_, cell));
    write_results(path_, *file_);
  }

  const std::filesystem::path& path_;
  const SweepTask& task_;
  const SweepCalls& calls_;
  FileLock lock_;
  std::optional<ResultFile> file_;
  std::vector<const SweepCell*> left_;
  double work_ = 0;
};

/// "512x768", or "own".
Cell pixels_cell(const ImageSize& size) {
  return size == ImageSize{} ? no_value("own") : Cell(fmt::format("{}x{}", size.width, size.height));
}

/// "own" is a word, not a number: CSV leaves it out.
Cell size_cell(std::int64_t size) { return size == 0 ? no_value("own") : count_cell(size); }

/// A row of the table. `baseline` is the cell of the same work without switches, if it was measured.
struct SweepRow {
  const SweepCell* cell = nullptr;
  const Result* result = nullptr;
  const Result* baseline = nullptr;
  std::optional<std::string> unsettled = {};
};

std::vector<Column> sweep_columns(bool has_factors) {
  const Shown factors = has_factors ? Shown::kEverywhere : Shown::kOnlyInCsv;
  return {{.header = "switches", .align = Align::kLeft},
          {.header = "pixels"},
          {.header = "steps"},
          {.header = "batch"},
          {.header = "a step", .priority = 2, .fields = {"step_ms"}},
          {.header = "95% interval", .priority = 7, .fields = {"step_low_ms", "step_high_ms"}},
          {.header = "an image", .fields = {"image_ms"}},
          {.header = "95% interval", .priority = 6, .fields = {"image_low_ms", "image_high_ms"}},
          {.header = "on baseline", .priority = 3, .fields = {"factor_on_baseline"}, .shown = factors},
          {.header = "95% interval",
           .priority = 4,
           .fields = {"factor_on_baseline_low", "factor_on_baseline_high"},
           .shown = factors},
          {.header = "images/s", .priority = 5, .fields = {"images_per_s"}},
          {.header = "peak memory", .priority = 1, .fields = {"peak_memory_bytes"}},
          {.header = "state", .shown = Shown::kOnlyInCsv}};
}

/// Whether every switch that was asked for declined, so that the cell ran as the baseline does.
bool is_declined(const Result& result) {
  return result.configuration.applied.empty() && !result.configuration.declined.empty();
}

std::string declined_names(const Result& result) {
  std::vector<std::string> names;
  for (const DeclinedSwitch& one : result.configuration.declined) names.push_back(one.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// "fuse", "fuse+fp8 (fp8 declined)", "fp8 (declined)".
std::string label_of(const std::string& switches, const Result& result) {
  if (result.configuration.declined.empty()) return switches;
  return is_declined(result) ? switches + " (declined)"
                             : fmt::format("{} ({} declined)", switches, declined_names(result));
}

std::vector<Cell> factor_cells(const SweepRow& row) {
  if (row.cell->switches == kBaseline) return {baseline_cell(), no_value()};
  if (row.baseline == nullptr) return {no_value(), no_value()};
  if (is_declined(*row.result)) return {no_value("declined"), no_value()};
  if (row.unsettled || why_unsettled(*row.baseline)) return {no_value("unsettled"), no_value()};
  const std::optional<Estimate> factor = speedup(*row.baseline, *row.result, /*is_one_file=*/true);
  if (!factor) return {no_value(), no_value()};
  return {factor_cell(factor->value), interval_cell(factor->interval)};
}

/// Why the factor of a row has no interval; empty if it has one, or if there is no factor.
std::string why_no_factor_interval(const SweepRow& row) {
  if (row.baseline == nullptr || row.unsettled || why_unsettled(*row.baseline)) return {};
  const std::string of_baseline = why_no_factor_interval(*row.baseline);
  return of_baseline.empty() ? why_no_factor_interval(*row.result) : of_baseline;
}

/// The state of a cell that fits, in CSV.
std::string state_of(const SweepRow& row) {
  if (row.unsettled) return "unsettled: " + *row.unsettled;
  return row.result->configuration.declined.empty() ? "measured" : "declined: " + declined_names(*row.result);
}

std::vector<Cell> sweep_cells(const SweepRow& row) {
  const auto& [cell, result, baseline, unsettled] = row;
  std::string switches = cell->switches;
  std::ranges::replace(switches, ',', '+');
  const std::string label = label_of(switches, *result);
  const Cell name(unsettled ? label + " ?" : label, {switches});
  std::vector<Cell> cells = {name, pixels_cell(cell->size), size_cell(cell->steps), count_cell(cell->batch)};
  if (is_out_of_memory(*result)) {
    cells.insert(cells.end(), {no_value(), no_value(), no_value("out of memory"), no_value(), no_value(), no_value(),
                               no_value(), no_value(), Cell("out of memory")});
    return cells;
  }
  const TrialSeries& step = series_of(*result, "step");
  const Timing image = *timing_of(*result);
  cells.insert(cells.end(), {ms_cell(step.statistics.median), interval_ms_cell(interval_of(step)),
                             ms_cell(image.median_ms), interval_ms_cell(image.interval_ms)});
  for (Cell& value : factor_cells(row)) cells.push_back(std::move(value));
  cells.insert(cells.end(),
               {number_cell(1000 / image.median_ms, format_significant(1000 / image.median_ms)),
                bytes_cell(result->memory ? result->memory->peak_bytes : std::nullopt), Cell(state_of(row))});
  return cells;
}

/// The id of a row's cell, with its switches joined by "+" as in the table.
std::string cell_name(const SweepRow& row) {
  std::string name = row.result->id;
  if (const std::size_t at = name.find(row.cell->switches); at != std::string::npos)
    std::ranges::replace(std::span(name).subspan(at, row.cell->switches.size()), ',', '+');
  return name;
}

/// What the reader needs to know of cells without an interval, and of unsettled ones.
std::string sweep_remarks(const std::vector<SweepRow>& rows) {
  std::string unsettled, few, declined, no_interval;
  for (const SweepRow& row : rows) {
    if (is_out_of_memory(*row.result)) continue;
    for (const DeclinedSwitch& one : row.result->configuration.declined)
      declined += fmt::format("  {}: {}: {}\n", cell_name(row), one.name, one.reason);
    if (no_interval.empty()) no_interval = why_no_factor_interval(row);
    if (row.unsettled) unsettled += fmt::format("  {}: {}\n", cell_name(row), *row.unsettled);
    if (few.empty()) few = remark_on_few_trials({row.result, 1}, "step", "--trials");
  }
  std::string text = few;
  if (few.empty() && !no_interval.empty())
    text += fmt::format("\nfactors have no interval: {} (--processes)\n", no_interval);
  if (!declined.empty()) text += "\ndeclined, so that the cell was measured without it:\n" + declined;
  if (!unsettled.empty()) text += "\nunsettled: too noisy to report:\n" + unsettled;
  return text;
}

}  // namespace

std::string cell_id(const SweepTask& task, const SweepCell& cell) {
  std::string id =
      fmt::format("{} {}, {}, {}, batch {}", task.model, cell.switches,
                  cell.size == ImageSize{} ? "own size" : fmt::format("{}x{}", cell.size.width, cell.size.height),
                  cell.steps == 0 ? "own steps" : format_count(cell.steps, "step"), cell.batch);
  return task.setting.empty() ? id : fmt::format("{}, {}", id, task.setting);
}

std::vector<SweepCell> list_cells(const SweepGrid& grid) {
  std::vector<SweepCell> cells;
  for (const ImageSize& size : grid.sizes)
    for (const std::int64_t batch : grid.batches)
      for (const std::int64_t steps : grid.steps)
        for (const std::string& switches : grid.switches) {
          const SweepCell cell{.switches = switches, .size = size, .steps = steps, .batch = batch};
          if (std::ranges::find(cells, cell) == cells.end()) cells.push_back(cell);
        }
  std::ranges::stable_sort(cells, {}, work_of);
  return cells;
}

ResultFile sweep(const std::filesystem::path& path, const SweepTask& task, const SweepCalls& calls) {
  return Sweep(path, task, calls).finish();
}

Printout to_sweep_table(const ResultFile& file, const SweepTask& task) {
  std::vector<SweepRow> rows;
  std::vector<const Result*> results;
  for (const SweepCell& cell : task.cells) {
    const Result* const result = find_cell(file, cell_id(task, cell));
    if (result == nullptr) continue;
    SweepRow row{.cell = &cell, .result = result};
    SweepCell base = cell;
    base.switches = kBaseline;
    const Result* const baseline = find_cell(file, cell_id(task, base));
    if (baseline != nullptr && baseline != result && !is_out_of_memory(*baseline) && !is_out_of_memory(*result))
      row.baseline = baseline;
    row.unsettled = why_unsettled(*result);
    rows.push_back(std::move(row));
    results.push_back(result);
  }
  const std::vector<std::string> stages = stages_of(results);
  const bool has_factors = std::ranges::any_of(rows, [](const SweepRow& row) { return row.baseline != nullptr; });
  Table table;
  for (Column& column : sweep_columns(has_factors)) table.add_column(std::move(column));
  for (Column& column : stage_fields(stages)) table.add_column(std::move(column));
  for (const SweepRow& row : rows) {
    std::vector<Cell> cells = sweep_cells(row);
    for (Cell& value : stage_values(*row.result, stages)) cells.push_back(std::move(value));
    table.add_row(std::move(cells));
  }
  Printout printout(std::move(table));
  printout.add(sweep_remarks(rows));
  return printout;
}

}  // namespace headroom
