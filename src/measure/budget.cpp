#include "measure/budget.hpp"

#include <algorithm>
#include <utility>

#include "measure/benchmark_names.hpp"
#include "measure/table.hpp"

namespace headroom {

std::string_view name_of(BudgetVerdict verdict) {
  if (verdict == BudgetVerdict::kMet) return "MET";
  return verdict == BudgetVerdict::kMissed ? "MISSED" : "INCONCLUSIVE";
}

BudgetLine judge_budget(std::string name, const Summary& statistics, double budget_ms) {
  BudgetLine line{.name = std::move(name), .p50_ms = statistics.median, .p99_ms = statistics.p99, .why = {}};
  const auto judged = [&](BudgetVerdict verdict, std::string why) {
    line.verdict = verdict;
    line.why = std::move(why);
    return line;
  };
  const auto& interval = statistics.median_interval;
  if (interval && interval->low > budget_ms)
    return judged(BudgetVerdict::kMissed, fmt::format("the median is at least {}", format_ms(interval->low)));
  if (statistics.p99 > budget_ms)
    return judged(BudgetVerdict::kMissed, fmt::format("p99 is {}", format_ms(statistics.p99)));
  if (!interval) return judged(BudgetVerdict::kInconclusive, "a single trial has no interval");
  if (interval->high > budget_ms)
    return judged(BudgetVerdict::kInconclusive, fmt::format("the median may be {}", format_ms(interval->high)));
  return judged(BudgetVerdict::kMet,
                fmt::format("{} of the budget is left at p99", format_ms(budget_ms - statistics.p99)));
}

BudgetLine judge_budget(std::string name, const LatencyRecord& latency, double budget_ms) {
  const LatencySummary& statistics = latency.statistics;
  BudgetLine line{.name = std::move(name), .p50_ms = statistics.p50_ms, .p99_ms = statistics.p99_ms, .why = {}};
  line.verdict = BudgetVerdict::kMissed;
  if (statistics.p99_ms > budget_ms) {
    line.why = fmt::format("p99 is {}", format_ms(statistics.p99_ms));
  } else if (latency.dropped > 0) {
    line.why = fmt::format("{} of {} frames came too late and were dropped", latency.dropped, latency.came);
  } else if (latency.shown < kFramesOfBudget) {
    line.verdict = BudgetVerdict::kInconclusive;
    line.why = fmt::format("{} frames say little of the p99, {} would", latency.shown, kFramesOfBudget);
  } else {
    line.verdict = BudgetVerdict::kMet;
    line.why = fmt::format("{} of the budget is left at p99", format_ms(budget_ms - statistics.p99_ms));
  }
  return line;
}

std::vector<BudgetLine> judge_budgets(const ResultFile& file, double budget_ms) {
  std::vector<BudgetLine> lines;
  for (const Result& result : file.results) {
    if (result.latency)
      lines.push_back(judge_budget(fmt::format("{} {}, frame in to frame out", result.subject.name, shown_name(result)),
                                   *result.latency, budget_ms));
    if (result.trials.empty()) continue;
    lines.push_back(judge_budget(fmt::format("{}, {}",
                                             result.subject.kind == SubjectKind::kKernel
                                                 ? result.name
                                                 : fmt::format("{} {}", result.subject.name, shown_name(result)),
                                             result.trials.front().what),
                                 result.trials.front().statistics, budget_ms));
  }
  return lines;
}

Printout to_table(const std::vector<BudgetLine>& lines, double budget_ms) {
  Table table;
  table.add_column(Column{.header = "benchmark", .align = Align::kLeft});
  table.add_column(Column{.header = "p50", .fields = {"p50_ms"}});
  table.add_column(Column{.header = "p99", .fields = {"p99_ms"}});
  table.add_column(Column{.header = "budget", .priority = 1, .fields = {"budget_ms"}});
  table.add_column(Column{.header = "verdict", .align = Align::kLeft});
  table.add_column(Column{.header = "why", .align = Align::kLeft});
  for (const BudgetLine& line : lines)
    table.add_row({line.name, ms_cell(line.p50_ms), ms_cell(line.p99_ms), ms_cell(budget_ms),
                   std::string(name_of(line.verdict)), line.why});
  return table;
}

ExitCode exit_code_of(const std::vector<BudgetLine>& lines) {
  const auto any = [&](BudgetVerdict verdict) {
    return std::ranges::any_of(lines, [&](const BudgetLine& line) { return line.verdict == verdict; });
  };
  if (any(BudgetVerdict::kMissed)) return ExitCode::kRegression;
  return any(BudgetVerdict::kInconclusive) ? ExitCode::kInconclusive : ExitCode::kOk;
}

}  // namespace headroom
