#pragma once

#include <nlohmann/json_fwd.hpp>

#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"

/// Result files in the formats of other tools and as tables: one line for each series of each result.
namespace headroom {

/// A table with the statistics of each series; its CSV form has all of them.
[[nodiscard]] Printout to_summary_table(const ResultFile& file);
/// The format of Google Benchmark's --benchmark_format=json: each trial is a repetition, followed by mean, median,
/// stddev and cv. All times are wall times; `cpu_time`, which its tools expect, repeats them.
[[nodiscard]] nlohmann::json to_google_benchmark(const ResultFile& file);

}  // namespace headroom
