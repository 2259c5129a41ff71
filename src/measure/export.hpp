#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "measure/result.hpp"

/// Result files in forms that other tools and people read: a line for each series of each result.
namespace headroom {

/// A table for the terminal.
[[nodiscard]] std::string to_summary_table(const ResultFile& file);
/// The same columns in Markdown.
[[nodiscard]] std::string to_markdown(const ResultFile& file);
/// All statistics, comma-separated with a header (RFC 4180, lines ended by a newline).
[[nodiscard]] std::string to_csv(const ResultFile& file);
/// As Google Benchmark writes with --benchmark_format=json: every trial as a repetition, then mean, median, stddev and
/// cv. All times are wall times; `cpu_time`, which its tools expect, repeats them.
[[nodiscard]] nlohmann::json to_google_benchmark(const ResultFile& file);

}  // namespace headroom
