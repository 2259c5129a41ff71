#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/result.hpp"

namespace headroom {

/// Tag of a cell that needed more memory than there is; its result has no trials.
inline constexpr std::string_view kOutOfMemoryTag = "out_of_memory";

/// One cell of a sweep.
struct SweepCell {
  std::string switches;         ///< as given: "lossless,steps=4"
  std::int64_t resolution = 0;  ///< pixels each way; 0 is the model's own
  std::int64_t steps = 0;       ///< 0 is the model's own
  std::int64_t batch = 1;
  friend bool operator==(const SweepCell&, const SweepCell&) = default;
};
/// Names a cell in a file: "flux-dev lossless, 512x512, 28 steps, batch 2".
[[nodiscard]] std::string cell_id(const std::string& model, const SweepCell& cell);

/// What is swept: every combination.
struct SweepGrid {
  std::vector<std::string> switches;
  std::vector<std::int64_t> resolutions;
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

/// Measures one cell: a file of one result, without trials and with kOutOfMemoryTag where it does not fit.
using CellRun = std::function<ResultFile(const SweepCell&)>;

/// Measures the cells that `path` does not hold yet and adds each as soon as it is done; the file is replaced whole, so
/// it is valid at any moment and a sweep that is killed goes on where it was. Results that are there are kept. Throws
/// Error where the file was written on another machine or by another build or revision and `force` is not set, and what
/// `run` throws.
ResultFile sweep(const std::filesystem::path& path, const std::string& model, const std::vector<SweepCell>& cells,
                 const CellRun& run, bool force, const std::function<void(const SweepProgress&)>& on_progress = {});

/// A line for each of the cells: time of a step and an image, memory, or that it ran out of it.
[[nodiscard]] std::string to_sweep_table(const ResultFile& file, const std::string& model,
                                         const std::vector<SweepCell>& cells);

}  // namespace headroom
