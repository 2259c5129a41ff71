#include "measure/statistics/effect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// Processes of one trial each.
ProcessTrials single_trials(const std::vector<double>& times) {
  ProcessTrials processes;
  for (const double time : times) processes.push_back({time});
  return processes;
}

TEST(PairedEffect, IsTheMedianOverPairs) {
  // Pairs drift together by a factor of ten; within a pair the ratio is 1.1, except for one of 3.
  const Effect effect = paired_effect(single_trials({1, 2, 5, 10, 4, 3}), single_trials({1.1, 2.2, 5.5, 11, 12, 3.3}));
  EXPECT_NEAR(effect.ratio, 1.1, 1e-12);
  EXPECT_TRUE(effect.paired);
  EXPECT_EQ(effect.base_processes, 6);
  // With 6 pairs the interval reaches from the smallest to the largest: 1 - 2 / 64 = 96.9%.
  ASSERT_TRUE(effect.interval.has_value());
  EXPECT_NEAR(effect.interval->low, 1.1, 1e-12);
  EXPECT_NEAR(effect.interval->high, 3, 1e-12);
}

TEST(PairedEffect, TakesTheMedianOfEachProcess) {
  const Effect effect = paired_effect(ProcessTrials(6, {1, 1, 1, 90}), ProcessTrials(6, {0.1, 2, 2, 2}));
  EXPECT_EQ(effect.ratio, 2);
  EXPECT_EQ(effect.p, 2.0 / 924);  // 924 = 12 choose 6 arrangements, of which one separates the halves
}

TEST(PairedEffect, HasNoIntervalBelowSixPairs) {
  EXPECT_FALSE(paired_effect(ProcessTrials(5, {1}), ProcessTrials(5, {1})).interval.has_value());
  EXPECT_TRUE(paired_effect(ProcessTrials(6, {1}), ProcessTrials(6, {1})).interval.has_value());
}

TEST(PairedEffect, BootstrapsManyPairsWithTheirTrials) {
  // Equal processes: resampling only pairs would give an interval without width.
  const Effect effect = paired_effect(ProcessTrials(20, {1.0, 1.1, 1.2}), ProcessTrials(20, {2.0, 2.2, 2.4}));
  ASSERT_TRUE(effect.interval.has_value());
  EXPECT_NEAR(effect.ratio, 2, 1e-12);
  EXPECT_LT(effect.interval->low, 1.99);
  EXPECT_GT(effect.interval->high, 2.01);
  EXPECT_LT(effect.interval->high, 2.2);
  // Equal trials, unequal pairs: resampling only trials would give an interval without width.
  ProcessTrials changed;
  for (int i = 0; i < 20; ++i) changed.push_back({2 + 0.01 * i});
  const Effect spread = paired_effect(ProcessTrials(20, {1}), changed);
  EXPECT_NEAR(spread.interval->low, 2.05, 0.02);
  EXPECT_NEAR(spread.interval->high, 2.14, 0.02);
}

TEST(PairedEffect, RefusesWhatCannotBeCompared) {
  EXPECT_THROW((void)paired_effect(ProcessTrials(3, {1}), ProcessTrials(2, {1})), Error);
  EXPECT_THROW((void)paired_effect({}, {}), Error);
  EXPECT_THROW((void)paired_effect(ProcessTrials(6, {1}), ProcessTrials(6)), Error);
  EXPECT_THROW((void)paired_effect(ProcessTrials(6, {1}), ProcessTrials(6, {0})), Error);
  EXPECT_THROW((void)paired_effect(ProcessTrials(6, {std::numeric_limits<double>::quiet_NaN()}), ProcessTrials(6, {1})),
               Error);
}

TEST(PairedFactor, SeesADifferenceOfTimesThatDriftTogether) {
  std::vector<double> base, changed;
  for (int i = 0; i < 25; ++i) {
    const double drift = std::exp(0.1 * i);
    base.push_back(drift * (1.05 + 0.002 * (i % 5)));
    changed.push_back(drift);
  }
  const Estimate factor = paired_factor(base, changed);
  EXPECT_NEAR(factor.value, 1.054, 1e-12);
  ASSERT_TRUE(factor.interval.has_value());
  EXPECT_GT(factor.interval->low, 1.05);
  EXPECT_LT(factor.interval->high, 1.058);
  // Their medians do not show it: each has the drift in its interval.
  const Estimate apart = ratio_of({median(base), median_interval(base)}, {median(changed), median_interval(changed)});
  EXPECT_LT(apart.interval->low, 1);
  EXPECT_GT(apart.interval->high, 1.1);
}

TEST(PairedFactor, IsOver1IfTheSecondIsFasterAndNeedsSixPairs) {
  EXPECT_EQ(paired_factor(std::vector<double>(6, 3), std::vector<double>(6, 2)).value, 1.5);
  EXPECT_TRUE(paired_factor(std::vector<double>(6, 3), std::vector<double>(6, 2)).interval.has_value());
  EXPECT_FALSE(paired_factor(std::vector<double>(5, 3), std::vector<double>(5, 2)).interval.has_value());
  EXPECT_THROW((void)paired_factor(std::vector<double>(5, 3), std::vector<double>(6, 2)), Error);
  EXPECT_THROW((void)paired_factor(std::vector{1.0}, std::vector{0.0}), Error);
}

TEST(UnpairedEffect, WidensByTheVarianceBetweenProcesses) {
  // Logarithms of the base are -0.01 and 0.01, so the pooled variance is 0.0002 over one degree of freedom; Student's
  // 97.5% quantile is 12.706 for one.
  const ProcessTrials base = {{std::exp(-0.01)}, {std::exp(0.01)}};
  const Effect effect = unpaired_effect(base, single_trials({1.0}));
  const double half_width = 12.7062047 * std::sqrt(std::acos(0.0) * 0.0002 * 1.5);
  ASSERT_TRUE(effect.interval.has_value());
  EXPECT_NEAR(effect.ratio, 1, 1e-4);  // the median of two is their mean, not that of their logarithms
  EXPECT_NEAR(std::log(effect.interval->high / effect.ratio), half_width, 1e-6);
  EXPECT_NEAR(std::log(effect.ratio / effect.interval->low), half_width, 1e-6);
  EXPECT_FALSE(effect.paired);
}

TEST(UnpairedEffect, KnowsNothingOfOneProcessOnEachSide) {
  const std::vector<double> base = {1.0, 1.0003, 0.9998, 1.0002, 0.9996, 1.0001};
  std::vector<double> changed;
  for (const double ms : base) changed.push_back(1.2 * ms);
  const Effect effect = unpaired_effect(ProcessTrials{base}, ProcessTrials{changed});
  EXPECT_NEAR(effect.ratio, 1.2, 1e-12);
  EXPECT_FALSE(effect.interval.has_value());
  EXPECT_EQ(effect.p, 1);
  EXPECT_EQ(effect.limit, kOneProcessEach);
  EXPECT_THAT(unpaired_effect(ProcessTrials{{1.0}}, ProcessTrials{{1.2}}).limit,
              HasSubstr("; and 1 trial gives no 95% interval, 6 would"))
      << "a given noise between processes would not help";
  // With a given noise of 3% between processes, the ratio is known to 2.5706 (Student's, 6 processes) * 0.03 *
  // sqrt(2). p is that of a normal distribution with such an interval. The trials add less than a hundredth of that.
  const Effect assumed = unpaired_effect(ProcessTrials{base}, ProcessTrials{changed}, 0.03);
  ASSERT_TRUE(assumed.interval.has_value());
  const double half_width = 2.5705818 * 0.03 * std::sqrt(2);
  EXPECT_NEAR(std::log(assumed.interval->high / 1.2), half_width, 1e-2 * half_width);
  EXPECT_NEAR(std::log(1.2 / assumed.interval->low), half_width, 1e-2 * half_width);
  EXPECT_NEAR(assumed.p, std::erfc(1.959964 * std::log(1.2) / half_width / std::sqrt(2)), 1e-6);
}

TEST(UnpairedEffect, NeedsAsManyTrialsAsEveryInterval) {
  for (const std::vector<double>& few : {std::vector{1.0}, {1.0, 1.01}, {1.0, 1.01, 0.99, 1.0, 1.0}}) {
    const Effect effect = unpaired_effect(ProcessTrials{few}, ProcessTrials{{2.0, 2.01, 1.98, 2.02, 2.03, 1.99}}, 0.01);
    EXPECT_FALSE(effect.interval.has_value());
    EXPECT_EQ(effect.limit, too_few_for_interval(std::ssize(few)));
  }
  EXPECT_TRUE(unpaired_effect(ProcessTrials{{1.0, 1.01, 0.99, 1.0, 1.02, 0.98}},
                              ProcessTrials{{2.0, 2.01, 1.98, 2.02, 2.03, 1.99}}, 0.01)
                  .interval);
}

TEST(UnpairedEffect, ReachesOverAStepOfTheClock) {
  const std::vector<double> low = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0}, high(8, 1.1);
  // One clock tick apart, which may be no difference at all.
  const Effect apart = unpaired_effect(ProcessTrials{low}, ProcessTrials{high}, 0.001);
  ASSERT_TRUE(apart.interval.has_value());
  EXPECT_LT(apart.interval->low, 1);
  EXPECT_THAT(apart.limit, HasSubstr("the clock has steps of 100 µs"));
  // The same, with eight processes on each side.
  EXPECT_LT(unpaired_effect(ProcessTrials(8, low), ProcessTrials(8, high)).interval.value().low, 1);
  EXPECT_LT(unpaired_effect(single_trials(low), single_trials(high)).interval.value().low, 1);
  EXPECT_LT(paired_effect(ProcessTrials(8, low), ProcessTrials(8, high)).interval.value().low, 1);
  // Ten ticks are a difference; equal times do not show the clock's resolution.
  EXPECT_GT(
      unpaired_effect(ProcessTrials{low}, ProcessTrials{{1.9, 2.0, 2.0, 2.0, 2.1, 2.0, 2.0, 2.0}}, 0.001).interval->low,
      1.5);
  for (const auto& [processes, noise] : {std::pair{1, std::optional(0.01)}, std::pair{8, std::optional<double>()}}) {
    const Effect equal = unpaired_effect(ProcessTrials(static_cast<std::size_t>(processes), low),
                                         ProcessTrials(static_cast<std::size_t>(processes), low), noise);
    EXPECT_FALSE(equal.interval.has_value());
    EXPECT_THAT(equal.limit, HasSubstr("clock is too coarse"));
  }
}

TEST(UnpairedEffect, ReachesOverADriftOfItsProcesses) {
  // Each process is slower than the previous one by 1%: the new build, measured afterwards, continues the drift of
  // the base.
  std::vector<double> base, changed;
  for (int i = 0; i < 8; ++i) {
    base.push_back(std::exp(0.01 * i));
    changed.push_back(std::exp(0.01 * (8 + i)));
  }
  const Effect drifting = unpaired_effect(single_trials(base), single_trials(changed));
  EXPECT_NEAR(drifting.ratio, std::exp(0.08), 1e-3);
  EXPECT_LT(drifting.interval.value().low, 1);
  EXPECT_THAT(drifting.limit, HasSubstr("processes drift"));
  // The same times in an order without drift.
  const auto shuffled = [](const std::vector<double>& times) {
    return std::vector{times[0], times[7], times[2], times[5], times[1], times[6], times[3], times[4]};
  };
  const Effect steady = unpaired_effect(single_trials(shuffled(base)), single_trials(shuffled(changed)));
  EXPECT_GT(steady.interval.value().low, 1);
  EXPECT_EQ(steady.limit, "");
  // Trials that drift within one process.
  const Effect trials = unpaired_effect(ProcessTrials{base}, ProcessTrials{changed}, 0.001);
  EXPECT_LT(trials.interval.value().low, 1);
  EXPECT_THAT(trials.limit, HasSubstr("trials drift"));
}

TEST(UnpairedEffect, SeesFourAgainstFour) {
  const Effect effect = unpaired_effect(single_trials({1, 1.01, 1.02, 1.03}), single_trials({1.2, 1.21, 1.22, 1.23}));
  EXPECT_NEAR(effect.p, 2.0 / 70, 1e-12);
  EXPECT_GT(effect.interval->low, 1.1);
}

/// Times of processes that differ by `noise` from each other; within one, trials differ by 1% and one in 20 is slow.
class SimulatedBuild {
 public:
  SimulatedBuild(std::uint64_t seed, double noise) : engine_(seed), noise_(noise) {}
  ProcessTrials run(int processes, int trials, double factor) {
    ProcessTrials times(static_cast<std::size_t>(processes));
    for (std::vector<double>& process : times) {
      const double level = factor * std::exp(noise_ * normal_(engine_));
      for (int i = 0; i < trials; ++i)
        process.push_back(level * std::exp(0.01 * normal_(engine_)) * (engine_() % 20 == 0 ? 1.3 : 1));
    }
    return times;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
  double noise_;
};

/// How often the interval of an effect contains the true ratio, in percent.
template <typename Measure>
double coverage_percent(int runs, double true_ratio, Measure measure) {
  int covered = 0;
  for (int run = 0; run < runs; ++run) {
    const Effect effect = measure(static_cast<std::uint64_t>(run));
    covered += effect.interval->low <= true_ratio && true_ratio <= effect.interval->high ? 1 : 0;
  }
  return 100.0 * covered / runs;
}

TEST(Coverage, OfFewPairsIsThatOfTheBinomial) {
  SimulatedBuild build(1, 0.03);
  const double percent = coverage_percent(
      2000, 1.04, [&](std::uint64_t) { return paired_effect(build.run(8, 20, 1), build.run(8, 20, 1.04)); });
  EXPECT_NEAR(percent, 100 * (1 - 2.0 / 256), 1);  // from the smallest to the largest of 8
}

TEST(Coverage, OfManyPairsHolds) {
  SimulatedBuild build(2, 0.03);
  const double percent = coverage_percent(400, 1.04, [&](std::uint64_t seed) {
    return paired_effect(build.run(24, 5, 1), build.run(24, 5, 1.04), {.resamples = 400, .seed = seed});
  });
  EXPECT_GT(percent, 92);
  EXPECT_LT(percent, 99.5);
}

TEST(Coverage, OfUnpairedProcessesHolds) {
  SimulatedBuild build(3, 0.03);
  for (const auto& [base, changed] : {std::pair{4, 4}, std::pair{8, 1}, std::pair{2, 3}}) {
    const double percent = coverage_percent(1000, 1.04, [&](std::uint64_t) {
      return unpaired_effect(build.run(base, 20, 1), build.run(changed, 20, 1.04));
    });
    EXPECT_GT(percent, 94) << base << " against " << changed;
  }
}

}  // namespace
}  // namespace headroom
