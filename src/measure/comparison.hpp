#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "measure/effect.hpp"
#include "measure/printout.hpp"
#include "measure/result.hpp"
#include "measure/verdict.hpp"

namespace headroom {

inline constexpr std::string_view kComparisonSchema = "headroom.comparison/1";

/// How two result files are compared.
struct ComparisonOptions {
  VerdictRule rule = {};
  /// The i-th process of one file ran beside the i-th of the other.
  bool paired = false;
  /// Compare across machines, builds and configurations, and say so.
  bool force = false;
  /// Standard deviation between processes, as a fraction, taken for known where each side has a single one.
  std::optional<double> process_noise = {};
  /// The series to compare; empty takes the first of each result, "all" takes all.
  std::string series = {};
};

/// One benchmark of two builds.
struct ComparedBenchmark {
  std::string name;    ///< of BenchmarkNames; with the series, where it is not the only one
  double base_ms = 0;  ///< median over processes of their medians
  double new_ms = 0;
  Effect effect;
  double p = 1;  ///< adjusted for the number of benchmarks (Holm)
  Judged judged;
  std::vector<std::string> notes;  ///< what else differs: switches that were applied
};

struct Comparison {
  std::string base_revision;  ///< git revision, or "unknown"
  std::string new_revision;
  VerdictRule rule;
  std::vector<ComparedBenchmark> benchmarks;
  std::vector<std::string> only_in_base;
  std::vector<std::string> only_in_new;
  std::vector<std::string> forced;  ///< differences that were overridden
};

/// Compares results of equal work, source and name; where each file has a single result of that work and source, also
/// under different names. Throws Error where nothing matches, a series that was asked for is
/// missing, or machines or configurations differ and `force` is not set; the message lists all that differs.
[[nodiscard]] Comparison compare_results(const ResultFile& base, const ResultFile& changed,
                                         const ComparisonOptions& options = {});

/// Whether more processes cannot be expected to change any verdict: is_settled() of every benchmark.
[[nodiscard]] bool is_settled(const Comparison& comparison);

/// 3 where a benchmark regressed, else 4 where one is inconclusive, else 0.
[[nodiscard]] ExitCode exit_code_of(const Comparison& comparison);

/// A table with a line for each benchmark, what was missing or forced, and a summary.
[[nodiscard]] Printout to_table(const Comparison& comparison);

/// Schema headroom.comparison/1. What is not known is left out.
[[nodiscard]] nlohmann::json to_json(const Comparison& comparison);

}  // namespace headroom
