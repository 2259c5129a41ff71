#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "measure/gates/compared_quantity.hpp"
#include "measure/gates/gate_report.hpp"
#include "measure/gates/quantities.hpp"
#include "measure/results/result.hpp"
#include "measure/results/result_folder.hpp"
#include "measure/statistics/effect.hpp"
#include "measure/statistics/verdict.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

inline constexpr std::string_view kComparisonSchema = "headroom.comparison/1";

/// Options for comparing two result files.
struct ComparisonOptions {
  VerdictRule rule = {};
  /// Process i of one file and process i of the other ran as a pair, one right after the other.
  bool paired = false;
  /// Compare across machines, builds and configurations, and record the differences.
  bool force = false;
  /// Standard deviation between processes, as a fraction, assumed if each side has a single process.
  std::optional<double> process_noise = {};
  /// Limits of the quantities other than time; the limit of time is that of the rule.
  Limits limits = {};
  /// The series to compare; empty takes the first of each result, "all" takes all.
  std::string series = {};
};

/// The comparison of one benchmark in two builds.
struct ComparedBenchmark {
  std::string name;    ///< of BenchmarkNames; with the series, where it is not the only one
  double base_ms = 0;  ///< median over processes of their medians
  double new_ms = 0;
  Effect effect;
  double p = 1;  ///< adjusted for the number of benchmarks (Holm)
  Judged judged;
  std::string unsettled = {};      ///< why no difference of times is evidence; empty if both sides are settled
  std::vector<std::string> notes;  ///< other differences: the switches that were applied
  bool is_timed = true;            ///< false if neither side has times: only quantities are compared
  bool is_own = true;              ///< measured by this program, so that `bench --against` can measure it again
  std::vector<ComparedQuantity> quantities = {};
};

struct Comparison {
  std::string base_revision;  ///< git revision, or "unknown"
  std::string new_revision;
  VerdictRule rule;
  Limits limits = {};
  std::vector<ComparedBenchmark> benchmarks;
  std::vector<std::string> only_in_base;
  std::vector<std::string> only_in_new;
  std::vector<std::string> forced;      ///< differences accepted because of `force`
  std::vector<std::string> notes = {};  ///< on the whole comparison: both sides hold the same measurements
};

/// Compares results of equal work, source and name. Names may differ if each file has a single result of that work
/// and source. Throws Error if nothing matches, a requested series is missing, or machines or configurations differ
/// and `force` is not set; the message lists all differences.
[[nodiscard]] Comparison compare_results(const ResultFile& base, const ResultFile& changed,
                                         const ComparisonOptions& options = {});

/// The same for several files on each side, named by their path below a folder. A result is compared with its
/// counterpart in any file of the other side; if several files have one, with that in the file of the same name.
/// Throws Error if the names do not decide.
[[nodiscard]] Comparison compare_results(std::span<const NamedResults> base, std::span<const NamedResults> changed,
                                         const ComparisonOptions& options = {});

/// Whether more processes cannot be expected to change any verdict: is_settled() of every benchmark and quantity.
[[nodiscard]] bool is_settled(const Comparison& comparison);

/// A line for the time and for each other quantity of each benchmark, then missing and forced items, and a summary.
[[nodiscard]] GateReport report_of(const Comparison& comparison);

/// The exit code of report_of().
[[nodiscard]] ExitCode exit_code_of(const Comparison& comparison);

/// Schema headroom.comparison/1. Unknown values are left out.
[[nodiscard]] nlohmann::json to_json(const Comparison& comparison);

}  // namespace headroom
