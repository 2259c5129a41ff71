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

/// How two result files are compared.
struct ComparisonOptions {
  VerdictRule rule = {};
  /// The i-th process of one file ran beside the i-th of the other.
  bool paired = false;
  /// Compare across machines, builds and configurations, and say so.
  bool force = false;
  /// Standard deviation between processes, as a fraction, taken for known where each side has a single one.
  std::optional<double> process_noise = {};
  /// Of what is judged besides time, whose limit is that of the rule.
  Limits limits = {};
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
  bool is_timed = true;            ///< neither side has times where not: only quantities are compared
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
  std::vector<std::string> forced;      ///< differences that were overridden
  std::vector<std::string> notes = {};  ///< of the whole: that both sides hold the same measurements
};

/// Compares results of equal work, source and name; where each file has a single result of that work and source, also
/// under different names. Throws Error where nothing matches, a series that was asked for is
/// missing, or machines or configurations differ and `force` is not set; the message lists all that differs.
[[nodiscard]] Comparison compare_results(const ResultFile& base, const ResultFile& changed,
                                         const ComparisonOptions& options = {});

/// The same of several files a side, named by their place below a folder. A result is compared with that of the other
/// side in whatever file it is; where several have it, with that in the file of the same name. Throws Error where no
/// name decides.
[[nodiscard]] Comparison compare_results(std::span<const NamedResults> base, std::span<const NamedResults> changed,
                                         const ComparisonOptions& options = {});

/// Whether more processes cannot be expected to change any verdict: is_settled() of every benchmark and quantity.
[[nodiscard]] bool is_settled(const Comparison& comparison);

/// A line for the time of each benchmark and each quantity, what was missing or forced, and a summary.
[[nodiscard]] GateReport report_of(const Comparison& comparison);

/// Those of report_of().
[[nodiscard]] ExitCode exit_code_of(const Comparison& comparison);

/// Schema headroom.comparison/1. What is not known is left out.
[[nodiscard]] nlohmann::json to_json(const Comparison& comparison);

}  // namespace headroom
