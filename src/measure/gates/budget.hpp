#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "measure/gates/gate_report.hpp"
#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

enum class BudgetVerdict : std::uint8_t { kMet, kMissed, kInconclusive };
[[nodiscard]] std::string_view name_of(BudgetVerdict verdict);

/// The verdict on one series under a budget.
struct BudgetLine {
  std::string name;
  double p50_ms = 0;
  double p99_ms = 0;
  BudgetVerdict verdict = BudgetVerdict::kInconclusive;
  std::string why;
};

/// Judges median and p99 of a series, in this order. Inconclusive if `unsettled` says why the times are not reliable
/// (why_unsettled()). Missed if the interval of the median lies above the budget.
/// Inconclusive if there are fewer trials than kTrialsOfP99 or the interval of the median contains the budget. Missed
/// if p99 exceeds it. Met otherwise.
[[nodiscard]] BudgetLine judge_budget(std::string name, const Summary& statistics, double budget_ms,
                                      const std::optional<std::string>& unsettled = {});

/// The same for the latencies of a stream, with frames as trials. A dropped frame misses the budget.
[[nodiscard]] BudgetLine judge_budget(std::string name, const LatencyRecord& latency, double budget_ms);

/// Judges the first series of every result, and the latencies of streams.
[[nodiscard]] std::vector<BudgetLine> judge_budgets(const ResultFile& file, double budget_ms);

[[nodiscard]] Printout to_table(const std::vector<BudgetLine>& lines, double budget_ms);

/// The same lines in the form of a gate report.
[[nodiscard]] GateReport report_of(const std::vector<BudgetLine>& lines, double budget_ms);

/// 3 if one is missed, otherwise 4 if one is inconclusive, otherwise 0.
[[nodiscard]] ExitCode exit_code_of(const std::vector<BudgetLine>& lines);

}  // namespace headroom
