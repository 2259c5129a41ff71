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

/// Tag of a cell that was measured on another machine, or at another revision, than its file names.
inline constexpr std::string_view kOtherMachineTag = "other_machine";

/// One cell of a sweep.
struct SweepCell {
  std::string switches;    ///< as given: "lossless,steps=4"
  ImageSize size = {};     ///< in pixels; 0 is the model's own
  std::int64_t steps = 0;  ///< 0 is the model's own
  std::int64_t batch = 1;
  friend bool operator==(const SweepCell&, const SweepCell&) = default;
};

/// What is swept: every combination.
struct SweepGrid {
  std::vector<std::string> switches;
  std::vector<ImageSize> sizes;
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> batches;
};
/// Its cells, each once, small before large, so that what fits is known before what does not.
[[nodiscard]] std::vector<SweepCell> list_cells(const SweepGrid& grid);

/// Told before each cell that is measured.
struct SweepProgress {
  const SweepCell* cell = nullptr;  ///< null when all is done
  std::size_t number = 0;           ///< of the cell among all, 1 first
  std::size_t cells = 0;
  double work_done = 0;  ///< share of the work of the cells that were not there, 0 to 1; large cells count more
};

/// What is measured, and how often.
struct SweepTask {
  std::string model;
  std::vector<SweepCell> cells;
  /// How all cells are run, where that is not left to the machine: "2 threads, bf16 baseline". Cells that are run in
  /// another way have other ids.
  std::string setting = {};
  std::int64_t trials = 1;     ///< steps to time in each process of a cell; a cell that has fewer is measured again
  std::int64_t processes = 1;  ///< the same of processes
  Machine machine = {};        ///< this one
  bool force = false;          ///< go on with a file that another machine, build or revision has begun
};
/// Names a cell in a file: "tiny-dit lossless, 512x768, 28 steps, batch 2", where the size is width x height.
[[nodiscard]] std::string cell_id(const SweepTask& task, const SweepCell& cell);

/// What the result of a cell must be of: the work, and these switches, of which a preset's may be left out that are for
/// another device.
struct CellWork {
  Subject subject;
  std::vector<std::string> switches;
};

/// What the sweep asks of its caller.
struct SweepCalls {
  /// Measures one cell: a file of one result, without trials and with kOutOfMemoryTag where it does not fit.
  std::function<ResultFile(const SweepCell&)> run;
  std::function<CellWork(const SweepCell&)> work;
  std::function<void(const SweepProgress&)> on_progress = {};
  /// Told of a cell that is there and measured again, and why.
  std::function<void(const std::string& id, const std::string& why)> on_again = {};
};

/// Measures the cells that `path` does not hold yet, or not often enough, and adds each as soon as it is done; the file
/// is replaced whole, so it is valid at any moment and a sweep that is killed goes on where it was. Results that are
/// there are kept. Throws Error where another sweep is at work on the file, where it was written on another machine or
/// by another build or revision and `force` is not set, where what it has under the id of a cell is of other work, and
/// what `run` throws. With `force` a cell that is measured elsewhere than the file was begun has kOtherMachineTag.
ResultFile sweep(const std::filesystem::path& path, const SweepTask& task, const SweepCalls& calls);

/// A line for each of the cells: time of a step and an image, memory, or that it ran out of it.
[[nodiscard]] Printout to_sweep_table(const ResultFile& file, const SweepTask& task);

}  // namespace headroom
