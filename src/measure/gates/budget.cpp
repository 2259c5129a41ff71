#include "measure/gates/budget.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "measure/results/timing.hpp"
#include "measure/statistics/tail.hpp"
#include "measure/suites/benchmark_names.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

/// The statistics that a line judges.
struct KnownTimes {
  std::int64_t trials = 0;
  std::optional<Interval> median;
  std::string missed;  ///< why the budget is missed whatever the trials say, one clause, or empty
};

BudgetLine judge_times(BudgetLine line, const KnownTimes& known, double budget_ms) {
  const auto judged = [&](BudgetVerdict verdict, std::string why) {
    line.verdict = verdict;
    line.why = std::move(why);
    return line;
  };
  if (known.median && known.median->low > budget_ms)
    return judged(BudgetVerdict::kMissed, fmt::format("the median is at least {}", format_ms(known.median->low)));
  if (!known.missed.empty()) return judged(BudgetVerdict::kMissed, known.missed);
  if (known.trials < kTrialsOfP99) return judged(BudgetVerdict::kInconclusive, too_few_for_p99(known.trials));
  if (line.p99_ms > budget_ms) return judged(BudgetVerdict::kMissed, fmt::format("p99 is {}", format_ms(line.p99_ms)));
  if (known.median && known.median->high > budget_ms)
    return judged(BudgetVerdict::kInconclusive, fmt::format("the median may be {}", format_ms(known.median->high)));
  return judged(BudgetVerdict::kMet,
                fmt::format("{} of the budget is left at p99", format_ms(budget_ms - line.p99_ms)));
}

}  // namespace

std::string_view name_of(BudgetVerdict verdict) {
  if (verdict == BudgetVerdict::kMet) return "MET";
  return verdict == BudgetVerdict::kMissed ? "MISSED" : "INCONCLUSIVE";
}

BudgetLine judge_budget(std::string name, const Summary& statistics, double budget_ms,
                        const std::optional<std::string>& unsettled) {
  BudgetLine line{.name = std::move(name), .p50_ms = statistics.median, .p99_ms = statistics.p99, .why = {}};
  if (unsettled) {
    line.why = fmt::format("unsettled: {}", *unsettled);
    return line;
  }
  return judge_times(std::move(line), {.trials = statistics.n, .median = statistics.median_interval, .missed = {}},
                     budget_ms);
}

BudgetLine judge_budget(std::string name, const LatencyRecord& latency, double budget_ms) {
  const LatencySummary& statistics = latency.statistics;
  // Frames are no independent trials, so their median has no interval.
  std::string missed;
  if (statistics.p50_ms > budget_ms)
    missed = fmt::format("the median is {}", format_ms(statistics.p50_ms));
  else if (latency.dropped > 0)
    missed = fmt::format("{} of {} frames came too late and were dropped", latency.dropped, latency.came);
  return judge_times({.name = std::move(name), .p50_ms = statistics.p50_ms, .p99_ms = statistics.p99_ms, .why = {}},
                     {.trials = std::ssize(latency.latency_ms), .median = {}, .missed = std::move(missed)}, budget_ms);
}

std::vector<BudgetLine> judge_budgets(const ResultFile& file, double budget_ms) {
  std::vector<BudgetLine> lines;
  BenchmarkNames names;
  names.add(file);
  for (const Result& result : file.results) {
    const std::string name = names.of(file.machine, result);
    if (result.latency)
      lines.push_back(judge_budget(fmt::format("{}, frame in to frame out", name), *result.latency, budget_ms));
    if (result.trials.empty()) continue;
    lines.push_back(judge_budget(fmt::format("{}, {}", name, result.trials.front().what),
                                 result.trials.front().statistics, budget_ms, why_unsettled(result)));
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

GateReport report_of(const std::vector<BudgetLine>& lines, double budget_ms) {
  GateReport report{.command = "headroom bench --budget",
                    .columns = {"p50", "p99", "budget"},
                    .lines = {},
                    .notes = {},
                    .summary = {}};
  for (const BudgetLine& line : lines)
    report.lines.push_back({.name = line.name,
                            .quantity = "time",
                            .cells = {format_ms(line.p50_ms), format_ms(line.p99_ms), format_ms(budget_ms)},
                            .verdict = std::string(name_of(line.verdict)),
                            .why = line.why,
                            .outcome = line.verdict == BudgetVerdict::kMet      ? GateOutcome::kPassed
                                       : line.verdict == BudgetVerdict::kMissed ? GateOutcome::kFailed
                                                                                : GateOutcome::kUndecided});
  report.summary = fmt::format("the budget of median and p99 is {}", format_ms(budget_ms));
  return report;
}

ExitCode exit_code_of(const std::vector<BudgetLine>& lines) {
  const auto any = [&](BudgetVerdict verdict) {
    return std::ranges::any_of(lines, [&](const BudgetLine& line) { return line.verdict == verdict; });
  };
  if (any(BudgetVerdict::kMissed)) return ExitCode::kRegression;
  return any(BudgetVerdict::kInconclusive) ? ExitCode::kInconclusive : ExitCode::kOk;
}

}  // namespace headroom
