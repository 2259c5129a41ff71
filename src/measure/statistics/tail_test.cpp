#include "measure/statistics/tail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

/// Processes around 10 ms, with one in 20 trials `tail` times as long; the speeds of processes differ within 0.7%.
ProcessTrials with_tail(std::int64_t processes, int trials, double tail) {
  ProcessTrials all;
  for (std::int64_t process = 0; process < processes; ++process) {
    std::vector<double>& own = all.emplace_back();
    const double level = 10 * (1 + 0.001 * static_cast<double>(process % 8));
    for (int i = 0; i < trials; ++i) own.push_back(level * (i % 20 == 7 ? tail : 1 + 0.0005 * (i % 7)));
  }
  return all;
}

Effect tail_effect(const ProcessTrials& base, const ProcessTrials& changed) {
  return p99_effect(base, changed, paired_effect(base, changed));
}

TEST(P99Bounds, AreOrderStatisticsOfTheBinomial) {
  // 990 of 1000 trials lie below the p99, plus or minus 6.2 (95%).
  const TailBounds bounds = p99_bounds(one_to(1000));
  EXPECT_EQ(bounds.low, 983);
  EXPECT_EQ(bounds.high, 997);
}

TEST(P99Bounds, HaveNoUpperEndBelowThatManyTrials) {
  EXPECT_EQ(trials_to_bound_p99(), 368);
  EXPECT_FALSE(p99_bounds(one_to(367)).high);
  EXPECT_EQ(p99_bounds(one_to(368)).high, 368);
  EXPECT_TRUE(p99_bounds(one_to(100)).low);
  EXPECT_THROW((void)p99_bounds({}), Error);
}

TEST(P99Effect, FindsALongerTailThoughTheMedianIsTheSame) {
  const Effect effect = tail_effect(with_tail(8, 60, 2), with_tail(8, 60, 2.6));
  EXPECT_NEAR(effect.ratio, 1.3, 0.01);
  ASSERT_TRUE(effect.interval);
  EXPECT_GT(effect.interval->low, 1.25);
  EXPECT_LT(effect.p, 0.05);
}

TEST(P99Effect, SaysNothingOfTooFewTrials) {
  const Effect few = tail_effect(with_tail(8, 12, 2), with_tail(8, 12, 3));
  EXPECT_FALSE(few.interval);
  EXPECT_EQ(few.limit, "the p99 of 96 trials has no upper bound; that takes 368 on each side")
      << "100 would not be enough either";
  const Effect unbounded = tail_effect(with_tail(8, 20, 2), with_tail(8, 20, 3));
  EXPECT_FALSE(unbounded.interval);
  EXPECT_THAT(unbounded.limit, HasSubstr("the p99 of 160 trials has no upper bound; that takes 368"));
}

TEST(P99Effect, DoesNotTakeOneSlowProcessForEvidence) {
  // The new build's whole tail comes from one of 8 processes, which was disturbed by another program.
  const ProcessTrials base = with_tail(8, 60, 1.01);
  ProcessTrials changed = base;
  for (std::size_t i = 0; i < 30; ++i) changed[3][i] *= 2;
  const Effect effect = tail_effect(base, changed);
  EXPECT_GT(effect.ratio, 1.5);
  EXPECT_GT(effect.p, 0.05);
}

TEST(P99Effect, OfABuildAgainstItselfIsSeldomADifference) {
  constexpr int kRuns = 200;
  int alarms = 0;
  for (std::uint32_t run = 0; run < kRuns; ++run) {
    std::array<ProcessTrials, 2> sides;
    for (std::uint32_t side = 0; side < 2; ++side)
      for (std::uint32_t process = 0; process < 8; ++process) {
        std::vector<double>& trials = sides[side].emplace_back();
        const auto draw = [&](std::uint32_t i, std::uint32_t use) {
          return static_cast<double>(philox4x32({run, side * 100 + process, i, use}, {7, 7})[0]) / 4294967296.0;
        };
        const double level = 10 * (1 + 0.03 * (draw(0, 1) - 0.5));
        for (std::uint32_t i = 0; i < 60; ++i)
          trials.push_back(level * (draw(i, 2) < 0.05 ? 1.5 + draw(i, 3) : 1 + 0.02 * draw(i, 4)));
      }
    const Effect effect = tail_effect(sides[0], sides[1]);
    if (effect.interval && effect.p < 0.05 && (effect.interval->low > 1 || effect.interval->high < 1)) ++alarms;
  }
  EXPECT_LE(alarms, kRuns * 25 / 1000);
}

}  // namespace
}  // namespace headroom
