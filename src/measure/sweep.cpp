#include "measure/sweep.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "measure/fingerprint.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

const Result* find_cell(const ResultFile& file, const std::string& id) {
  const auto found = std::ranges::find(file.results, id, &Result::id);
  return found == file.results.end() ? nullptr : &*found;
}

/// Relative time of a cell: tokens of all images in all steps, of which at least 25 are run.
double work_of(const SweepCell& cell) {
  const auto side = static_cast<double>(std::max<std::int64_t>(1, cell.resolution));
  return side * side * static_cast<double>(cell.batch) * static_cast<double>(std::max<std::int64_t>(25, cell.steps));
}

std::string revision_of(const ResultFile& file) {
  return file.machine.build ? file.machine.build->git_revision : "unknown";
}

void check_same_machine(const ResultFile& file, const ResultFile& cell, const std::filesystem::path& path) {
  std::vector<std::string> differences = machine_differences(file.machine, cell.machine);
  if (revision_of(file) != revision_of(cell))
    differences.push_back(fmt::format("revision: {} against {}", revision_of(file), revision_of(cell)));
  if (!differences.empty())
    fail("{} was begun elsewhere, and one sweep should not mix machines or builds (--force goes on all the same): {}",
         path.string(), fmt::join(differences, "; "));
}

void add_cell(ResultFile& file, ResultFile cell, const std::string& id) {
  HR_CHECK_EQ(cell.results.size(), std::size_t{1});
  file.created = cell.created;
  file.plans.merge(cell.plans);
  file.results.push_back(std::move(cell.results.front()));
  file.results.back().id = id;
}

}  // namespace

std::string cell_id(const std::string& model, const SweepCell& cell) {
  return fmt::format("{} {}, {}, {}, batch {}", model, cell.switches,
                     cell.resolution == 0 ? "own size" : fmt::format("{}x{}", cell.resolution, cell.resolution),
                     cell.steps == 0 ? "own steps" : fmt::format("{} steps", cell.steps), cell.batch);
}

std::vector<SweepCell> list_cells(const SweepGrid& grid) {
  std::vector<SweepCell> cells;
  for (const std::int64_t resolution : grid.resolutions)
    for (const std::int64_t batch : grid.batches)
      for (const std::int64_t steps : grid.steps)
        for (const std::string& switches : grid.switches) {
          const SweepCell cell{.switches = switches, .resolution = resolution, .steps = steps, .batch = batch};
          if (std::ranges::find(cells, cell) == cells.end()) cells.push_back(cell);
        }
  std::ranges::stable_sort(cells, {}, work_of);
  return cells;
}

ResultFile sweep(const std::filesystem::path& path, const std::string& model, const std::vector<SweepCell>& cells,
                 const CellRun& run, bool force, const std::function<void(const SweepProgress&)>& on_progress) {
  std::optional<ResultFile> file;
  if (std::filesystem::exists(path)) file = read_results(path);
  double work = 0, done = 0;
  for (const SweepCell& cell : cells)
    if (!file || find_cell(*file, cell_id(model, cell)) == nullptr) work += work_of(cell);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string id = cell_id(model, cells[i]);
    if (file && find_cell(*file, id) != nullptr) continue;
    if (on_progress) on_progress({&cells[i], i + 1, cells.size(), done / work});
    ResultFile measured = run(cells[i]);
    if (!file)
      file = ResultFile{.created = measured.created, .machine = measured.machine, .plans = {}, .results = {}};
    else if (!force)
      check_same_machine(*file, measured, path);
    add_cell(*file, std::move(measured), id);
    write_results(path, *file);
    done += work_of(cells[i]);
  }
  if (on_progress) on_progress({nullptr, cells.size(), cells.size(), 1});
  HR_CHECK(file.has_value());
  return std::move(*file);
}

std::string to_sweep_table(const ResultFile& file, const std::string& model, const std::vector<SweepCell>& cells) {
  Table table;
  table.add_column("switches", Align::kLeft);
  for (const char* header :
       {"pixels", "steps", "batch", "a step", "95% interval", "an image", "images/s", "peak memory"})
    table.add_column(header);
  for (const SweepCell& cell : cells) {
    const Result* result = find_cell(file, cell_id(model, cell));
    if (result == nullptr) continue;
    std::vector<std::string> cells_of_row = {
        cell.switches, cell.resolution == 0 ? "own" : fmt::format("{}", cell.resolution),
        cell.steps == 0 ? "own" : fmt::format("{}", cell.steps), fmt::format("{}", cell.batch)};
    if (result->trials.empty()) {
      cells_of_row.insert(cells_of_row.end(), {"out of memory", "-", "-", "-", "-"});
    } else {
      const Summary& step = series_of(*result, "step").statistics;
      const double image_ms = series_of(*result, "image").statistics.median;
      const bool has_peak = result->memory && result->memory->peak_bytes;
      cells_of_row.insert(
          cells_of_row.end(),
          {format_ms(step.median), step.median_interval ? format_interval_ms(*step.median_interval) : "-",
           format_ms(image_ms), format_significant(1000 / image_ms),
           has_peak ? format_bytes(static_cast<std::uint64_t>(*result->memory->peak_bytes)) : "-"});
    }
    table.add_row(std::move(cells_of_row));
  }
  return table.render();
}

}  // namespace headroom
