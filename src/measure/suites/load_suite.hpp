#pragma once

#include <string>

#include "backends/backend.hpp"
#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

struct LoadBenchOptions {
  std::uint64_t bytes = std::uint64_t{2} << 30;  ///< of the checkpoint that is written, read and deleted
  int trials = 5;
};

/// How fast weights reach the device: a safetensors file of tensors as large as a 12 B model's, written to the folder for
/// temporary files and therefore in the page cache, is mapped and copied tensor by tensor ("mapped file"), as a model
/// is loaded; beside it one tensor of ordinary memory ("memory") and, where the device has memory of its own, the rate
/// of its link ("page-locked memory"), which neither can beat. One result each, series "load" of as many trials. Throws
/// Error where the file cannot be written.
[[nodiscard]] ResultFile bench_load(Backend& backend, const LoadBenchOptions& options = {});

/// The rates as a table, and their share of the link's.
[[nodiscard]] Printout to_load_table(const ResultFile& file);

}  // namespace headroom
