#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"
#include "pipelines/request.hpp"

namespace headroom {

/// Tag of a cell that was measured on another machine or revision than the one recorded in its file.
inline constexpr std::string_view kOtherMachineTag = "other_machine";

/// One cell of a sweep.
struct SweepCell {
  std::string switches;    ///< as given: "lossless,steps=4"
  ImageSize size = {};     ///< in pixels; 0 is the model's own
  std::int64_t steps = 0;  ///< 0 is the model's own
  std::int64_t batch = 1;
  friend bool operator==(const SweepCell&, const SweepCell&) = default;
};

/// The axes of a sweep, which measures every combination.
struct SweepGrid {
  std::vector<std::string> switches;
  std::vector<ImageSize> sizes;
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> batches;
};
/// The distinct cells of the grid, small before large, so that cells that fit come before those that do not.
[[nodiscard]] std::vector<SweepCell> list_cells(const SweepGrid& grid);

/// Progress, reported before each cell that is measured.
struct SweepProgress {
  const SweepCell* cell = nullptr;  ///< null when all cells are done
  std::size_t number = 0;           ///< of the cell among all, from 1
  std::size_t cells = 0;
  double work_done = 0;  ///< share of the missing cells' work, 0 to 1; large cells count more
};

/// The cells to measure, and how often.
struct SweepTask {
  std::string model;
  std::vector<SweepCell> cells;
  /// Settings of all cells that are not left to the machine: "2 threads, bf16 baseline". Cells with other settings
  /// have other ids.
  std::string setting = {};
  std::int64_t trials = 1;     ///< steps to time in each process of a cell; a cell with fewer is measured again
  std::int64_t processes = 1;  ///< processes for each cell; a cell with fewer is measured again
  Machine machine = {};        ///< this one
  bool force = false;          ///< continue a file that was begun on another machine, build or revision
};
/// The id of a cell in a file: "tiny-dit lossless, 512x768, 28 steps, batch 2", with the size as width x height.
[[nodiscard]] std::string cell_id(const SweepTask& task, const SweepCell& cell);

/// The required content of a cell's result: the work, and these switches. Switches of a preset that are for another
/// device may be missing.
struct CellWork {
  Subject subject;
  std::vector<std::string> switches;
};

/// Callbacks to the caller of a sweep.
struct SweepCalls {
  /// Measures one cell: a file of one result. If the cell does not fit, it has no trials and kOutOfMemoryTag.
  std::function<ResultFile(const SweepCell&)> run;
  std::function<CellWork(const SweepCell&)> work;
  std::function<void(const SweepProgress&)> on_progress = {};
  /// Receives a cell that exists but is measured again, and the reason.
  std::function<void(const std::string& id, const std::string& why)> on_again = {};
};

/// Measures the cells that `path` does not hold yet, or not often enough, and adds each when it is done. The file is
/// replaced atomically, so it is always valid, and an interrupted sweep continues from it. Existing results are kept.
/// With `force`, a cell measured elsewhere than the file was begun has kOtherMachineTag. Exceptions of `run` pass
/// through. Throws Error if:
/// - another sweep is working on the file;
/// - the file comes from another machine, build or revision, and `force` is not set;
/// - it holds other work under the id of a cell.
ResultFile sweep(const std::filesystem::path& path, const SweepTask& task, const SweepCalls& calls);

/// One line for each cell: time of a step and of an image, speedup() over the baseline's cell of the same work, and
/// memory, or that the cell ran out of memory. Cells that are unsettled or whose switches declined are marked and
/// listed below it. A factor has an interval if both cells were measured in several processes.
[[nodiscard]] Printout to_sweep_table(const ResultFile& file, const SweepTask& task);

}  // namespace headroom
