#include "measure/gates/budget.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace headroom {
namespace {

/// 100 times of `ms`, of which the last `slow` take twice as long.
Summary times(double ms, int slow) {
  std::vector<double> trials(100, ms);
  for (int i = 0; i < slow; ++i) trials[static_cast<std::size_t>(99 - i)] = 2 * ms;
  return summarize(trials);
}

TEST(Budget, JudgesMedianAndTail) {
  EXPECT_EQ(judge_budget("a", times(30, 0), 40).verdict, BudgetVerdict::kMet);
  EXPECT_EQ(judge_budget("a", times(30, 0), 40).why, "10.0 ms of the budget is left at p99");
  EXPECT_EQ(judge_budget("a", times(50, 0), 40).verdict, BudgetVerdict::kMissed);
  EXPECT_EQ(judge_budget("a", times(30, 5), 40).verdict, BudgetVerdict::kMissed);  // one in twenty takes 60 ms
  EXPECT_EQ(judge_budget("a", times(30, 5), 40).why, "p99 is 60.0 ms");
}

TEST(Budget, IsInconclusiveWhereTheMedianMayBeEither) {
  Summary statistics = times(39, 0);
  statistics.median_interval = Interval{38, 41};
  EXPECT_EQ(judge_budget("a", statistics, 40).verdict, BudgetVerdict::kInconclusive);
  EXPECT_EQ(judge_budget("a", summarize(std::vector{30.0}), 40).verdict, BudgetVerdict::kInconclusive);
}

TEST(Budget, SaysNothingOfTheTailOfTooFewTrials) {
  const Summary few = summarize(std::vector<double>(99, 30.0));
  EXPECT_EQ(judge_budget("a", few, 40).verdict, BudgetVerdict::kInconclusive);
  EXPECT_EQ(judge_budget("a", few, 40).why, "99 trials say little of the p99, 100 would say it");
  std::vector<double> one_slow(20, 30.0);
  one_slow.back() = 60;
  EXPECT_EQ(judge_budget("a", summarize(one_slow), 40).verdict, BudgetVerdict::kInconclusive)
      << "neither met nor missed";
  EXPECT_EQ(judge_budget("a", few, 20).verdict, BudgetVerdict::kMissed) << "the median is enough for that";
}

TEST(Budget, ClaimsNothingOfUnsettledTimes) {
  for (const double ms : {30.0, 50.0}) {
    const BudgetLine line = judge_budget("a", times(ms, 0), 40, "other work held the CPUs");
    EXPECT_EQ(line.verdict, BudgetVerdict::kInconclusive) << ms;
    EXPECT_EQ(line.why, "unsettled: other work held the CPUs");
  }
}

TEST(Budget, OfAFileAsksWhetherItsTimesAreSettled) {
  Trials trials{.wall_ms = std::vector<double>(100, 30.0), .conditions = {}};
  const auto verdict = [&] {
    ResultFile file;
    file.results.emplace_back().trials = {make_series("forward", trials)};
    return judge_budgets(file, 40).at(0).verdict;
  };
  EXPECT_EQ(verdict(), BudgetVerdict::kMet);
  trials.conditions.waited_ms.assign(100, 12);
  EXPECT_EQ(verdict(), BudgetVerdict::kInconclusive);
}

TEST(Budget, OfAStreamNamesTheMedianItself) {
  LatencyRecord stream{.came = 8, .shown = 8, .dropped = 0, .seconds = 1};
  stream.latency_ms = {40, 42, 44, 46, 48, 50, 52, 54};
  stream.statistics = summarize_latency(stream.latency_ms);
  const BudgetLine missed = judge_budget("a", stream, 30);
  EXPECT_EQ(missed.verdict, BudgetVerdict::kMissed);
  EXPECT_EQ(missed.why, "the median is 47.0 ms") << "frames have no interval";
  EXPECT_EQ(judge_budget("a", stream, 60).verdict, BudgetVerdict::kInconclusive);
  stream.dropped = 1;
  EXPECT_EQ(judge_budget("a", stream, 60).why, "1 of 8 frames came too late and were dropped");
}

TEST(Budget, GivesTheWorstExitCode) {
  const BudgetLine met{.name = "a", .verdict = BudgetVerdict::kMet, .why = {}};
  const BudgetLine missed{.name = "b", .verdict = BudgetVerdict::kMissed, .why = {}};
  const BudgetLine unclear{.name = "c", .verdict = BudgetVerdict::kInconclusive, .why = {}};
  EXPECT_EQ(exit_code_of({met}), ExitCode::kOk);
  EXPECT_EQ(exit_code_of({met, unclear}), ExitCode::kInconclusive);
  EXPECT_EQ(exit_code_of({unclear, missed}), ExitCode::kRegression);
}

TEST(Budget, DrawsATable) {
  const std::string table = to_table(std::vector{judge_budget("flux, step", times(50, 0), 40)}, 40).text();
  EXPECT_NE(table.find("flux, step"), std::string::npos);
  EXPECT_NE(table.find("MISSED"), std::string::npos);
}

}  // namespace
}  // namespace headroom
