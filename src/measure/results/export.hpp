#pragma once

#include <nlohmann/json_fwd.hpp>

#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"

/// Result files in forms that other tools and people read: a line for each series of each result.
namespace headroom {

/// A table with the statistics of each series; in CSV all of them.
[[nodiscard]] Printout to_summary_table(const ResultFile& file);
/// As Google Benchmark writes with --benchmark_format=json: every trial as a repetition, then mean, median, stddev and
/// cv. All times are wall times; `cpu_time`, which its tools expect, repeats them.
[[nodiscard]] nlohmann::json to_google_benchmark(const ResultFile& file);

}  // namespace headroom
