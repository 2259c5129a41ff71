#pragma once

#include <cstdint>
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

/// How one series stands to a budget.
struct BudgetLine {
  std::string name;
  double p50_ms = 0;
  double p99_ms = 0;
  BudgetVerdict verdict = BudgetVerdict::kInconclusive;
  std::string why;
};

/// Judges median and p99 of a series. Missed where the interval of the median lies above the budget; inconclusive where
/// there are fewer trials than kTrialsOfP99 or the interval of the median holds the budget; missed where p99 exceeds
/// it; else met.
[[nodiscard]] BudgetLine judge_budget(std::string name, const Summary& statistics, double budget_ms);

/// The same of the latencies of a stream, a frame being a trial. A frame that was dropped misses the budget.
[[nodiscard]] BudgetLine judge_budget(std::string name, const LatencyRecord& latency, double budget_ms);

/// The first series of every result, and the latencies of streams.
[[nodiscard]] std::vector<BudgetLine> judge_budgets(const ResultFile& file, double budget_ms);

[[nodiscard]] Printout to_table(const std::vector<BudgetLine>& lines, double budget_ms);

/// The same lines as those of a gate.
[[nodiscard]] GateReport report_of(const std::vector<BudgetLine>& lines, double budget_ms);

/// 3 where one is missed, else 4 where one is inconclusive, else 0.
[[nodiscard]] ExitCode exit_code_of(const std::vector<BudgetLine>& lines);

}  // namespace headroom
