#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "measure/printout.hpp"
#include "measure/result.hpp"

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

/// Judges median and p99 of a series: missed where the interval of the median lies above the budget or p99 exceeds it,
/// met where both lie within, inconclusive where the interval of the median holds the budget or there is none.
[[nodiscard]] BudgetLine judge_budget(std::string name, const Summary& statistics, double budget_ms);

/// Judges median and p99 of the latencies of a stream: missed where p99 exceeds the budget or a frame was dropped, inconclusive where fewer
/// than kFramesOfBudget frames were shown, of which nobody knows the p99, else met.
[[nodiscard]] BudgetLine judge_budget(std::string name, const LatencyRecord& latency, double budget_ms);
inline constexpr std::int64_t kFramesOfBudget = 100;

/// The first series of every result, and the latencies of streams.
[[nodiscard]] std::vector<BudgetLine> judge_budgets(const ResultFile& file, double budget_ms);

[[nodiscard]] Printout to_table(const std::vector<BudgetLine>& lines, double budget_ms);

/// 3 where one is missed, else 4 where one is inconclusive, else 0.
[[nodiscard]] ExitCode exit_code_of(const std::vector<BudgetLine>& lines);

}  // namespace headroom
