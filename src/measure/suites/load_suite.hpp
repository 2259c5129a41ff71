#pragma once

#include <string>

#include "backends/backend.hpp"
#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

struct LoadBenchOptions {
  std::uint64_t bytes = std::uint64_t{2} << 30;  ///< of the checkpoint that is written, read and deleted
  int trials = 6;                                ///< the fewest that have an interval
};

/// Measures how fast weights reach the device. A safetensors file with tensors as large as a 12 B model's is written
/// to the folder for temporary files, and is therefore in the page cache. Results, each with a series "load" of
/// `trials` trials and the conditions during them, after one load that is not timed:
/// - "mapped file": the file is mapped and copied tensor by tensor, as a model is loaded;
/// - "memory": one tensor of ordinary memory;
/// - "page-locked memory": the rate of the link, which bounds both others; only if the device has memory of its own.
/// Throws Error if the file cannot be written.
[[nodiscard]] ResultFile bench_load(Backend& backend, const LoadBenchOptions& options = {});

/// The rates as a table, and their share of the link's rate.
[[nodiscard]] Printout to_load_table(const ResultFile& file);

}  // namespace headroom
