#include "measure/statistics/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One mild outlier (13.0) and one severe (30.5); deliberately not sorted.
const std::vector<double> kTimes = {12.1, 11.9, 12.4, 12.0, 30.5, 12.2, 11.8, 12.3, 12.05, 13.0, 12.15};

// Expected values from Python's `statistics` module: median, quantiles(method="inclusive"), fmean, stdev.
TEST(Summarize, MatchesPythonStatistics) {
  const Summary summary = summarize(kTimes);
  EXPECT_EQ(summary.n, 11);
  EXPECT_DOUBLE_EQ(summary.median, 12.15);
  EXPECT_DOUBLE_EQ(summary.q1, 12.025);
  EXPECT_DOUBLE_EQ(summary.q3, 12.35);
  EXPECT_DOUBLE_EQ(summary.min, 11.8);
  EXPECT_DOUBLE_EQ(summary.max, 30.5);
  EXPECT_DOUBLE_EQ(summary.p95, 21.75);
  EXPECT_DOUBLE_EQ(summary.p99, 28.75);
  EXPECT_NEAR(summary.mean, 13.854545454545455, 1e-12);
  ASSERT_TRUE(summary.stddev.has_value());
  EXPECT_NEAR(*summary.stddev, 5.529848756767881, 1e-12);
}

TEST(Summarize, CountsMildAndSevereOutliersApart) {
  const Summary summary = summarize(kTimes);
  EXPECT_EQ(summary.outliers_mild, 1);
  EXPECT_EQ(summary.outliers_severe, 1);
  EXPECT_NEAR(summary.trimmed_mean, 12.1, 1e-12);
}

TEST(Summarize, DoesNotDependOnOrder) {
  std::vector<double> reversed(kTimes.rbegin(), kTimes.rend());
  EXPECT_EQ(summarize(kTimes), summarize(reversed));
}

TEST(Summarize, OneTrialHasNeitherSpreadNorInterval) {
  const Summary summary = summarize(std::vector{7.5});
  EXPECT_EQ(summary.n, 1);
  EXPECT_EQ(summary.median, 7.5);
  EXPECT_EQ(summary.p99, 7.5);
  EXPECT_EQ(summary.trimmed_mean, 7.5);
  EXPECT_FALSE(summary.stddev.has_value());
  EXPECT_FALSE(summary.median_interval.has_value());
}

TEST(Summarize, ConstantTrialsHaveAPointInterval) {
  // 0.1 is not a binary fraction, so a naive mean of these is not exactly 0.1.
  const Summary summary = summarize(std::vector<double>(23, 0.1));
  EXPECT_EQ(summary.mean, 0.1);
  EXPECT_EQ(summary.trimmed_mean, 0.1);
  EXPECT_EQ(summary.stddev, 0.0);
  EXPECT_EQ(summary.outliers_mild + summary.outliers_severe, 0);
  EXPECT_EQ(summary.median_interval, (Interval{0.1, 0.1}));
}

TEST(Summarize, RefusesNothingAndNonFiniteTrials) {
  EXPECT_THROW((void)summarize({}), Error);
  EXPECT_THROW((void)summarize(std::vector{1.0, kNan}), Error);
  EXPECT_THROW((void)median(std::vector{kInfinity}), Error);
  EXPECT_THROW((void)bootstrap_median_interval({}), Error);
  EXPECT_THROW((void)bootstrap_median_interval(std::vector{1.0, -kInfinity}), Error);
}

TEST(Quantile, InterpolatesAsType7) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 1), 8);
  EXPECT_THROW((void)quantile_of_sorted({}, 0.5), std::logic_error);
  EXPECT_THROW((void)quantile_of_sorted(sorted, 1.01), std::logic_error);
}

// For odd n the bootstrap distribution of the median is known exactly (Efron, 1979): the median of a resample is at
// most x_(k) with the probability that Binomial(n, k/n) >= (n+1)/2. For n = 11 that is 0.0072 at x_(2), 0.0512 at
// x_(3), 0.9488 at x_(8) and 0.9928 at x_(9), so 2.5% and 97.5% fall on x_(3) and x_(9).
TEST(BootstrapMedian, FallsOnTheExactOrderStatistics) {
  EXPECT_EQ(bootstrap_median_interval(kTimes), (Interval{12.0, 12.4}));
}

// The same for n = 21: 0.0183 at x_(6), 0.0557 at x_(7), 0.9443 at x_(14), 0.9817 at x_(15).
TEST(BootstrapMedian, FallsOnTheExactOrderStatisticsOfMoreTrials) {
  std::vector<double> values(21);
  std::iota(values.begin(), values.end(), 1);
  EXPECT_EQ(bootstrap_median_interval(values), (Interval{7, 15}));
}

// Of three trials a and three b, a resample has the median (a+b)/2 if it holds three of each: with probability
// 20/64. The medians a and b have 22/64 each, so both tails lie on the trials.
TEST(BootstrapMedian, AveragesTheMiddlePairOfAnEvenCount) {
  const std::vector<double> trials = {3, 1, 3, 1, 3, 1};
  EXPECT_EQ(bootstrap_median_interval(trials), (Interval{1, 3}));
  int middle = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto drawn = bootstrap_median_interval(trials, {.resamples = 1, .seed = seed});
    ASSERT_TRUE(drawn.has_value());
    middle += drawn->low == 2.0 ? 1 : 0;
  }
  EXPECT_NEAR(middle, 125, 46);  // five standard deviations
}

// All of 5 trials lie on one side of the median in one of 16 cases, so no interval within them holds it with 95%.
TEST(BootstrapMedian, OfFewerThanSixTrialsIsNone) {
  for (std::size_t count = 1; count < 6; ++count) {
    std::vector<double> trials(count, 10.0);
    trials.back() = 11;
    EXPECT_FALSE(bootstrap_median_interval(trials)) << count;
    EXPECT_FALSE(summarize(trials).median_interval) << count;
    EXPECT_FALSE(ratio_with_interval(kTimes, trials).interval) << count;
    EXPECT_FALSE(ratio_with_interval(trials, kTimes).interval) << count;
  }
  EXPECT_TRUE(bootstrap_median_interval(std::vector<double>{10, 10, 10, 10, 10, 11}));
  EXPECT_EQ(too_few_for_interval(3), "3 trials give no 95% interval, 6 would");
  EXPECT_EQ(too_few_for_interval(1, "frame"), "1 frame gives no 95% interval, 6 would");
}

TEST(BootstrapMedian, IsDeterministicAndSeeded) {
  std::vector<double> values(40);
  for (int i = 0; i < 40; ++i) values[static_cast<std::size_t>(i)] = std::sin(i) + 2;
  EXPECT_EQ(bootstrap_median_interval(values), bootstrap_median_interval(values));
  const auto few = bootstrap_median_interval(values, {.resamples = 20, .seed = 1});
  const auto others = bootstrap_median_interval(values, {.resamples = 20, .seed = 2});
  EXPECT_NE(few, others);
}

/// The number of 100 runs in which the interval of the median contains the true median. Times are drawn as Q(U) for a
/// known quantile function Q with a slow tail of 5%, so the true median is Q(1/2).
double covered_percent(std::size_t count, int runs) {
  const auto time_at = [](double u) { return 10 + u + (u > 0.95 ? 100 * (u - 0.95) : 0); };
  std::mt19937_64 engine(20240607);
  std::vector<double> trials(count);
  int covered = 0;
  for (int run = 0; run < runs; ++run) {
    for (double& trial : trials) trial = time_at(static_cast<double>(engine() >> 11U) * 0x1p-53);
    const auto interval =
        bootstrap_median_interval(trials, {.resamples = 1000, .seed = static_cast<std::uint64_t>(run)});
    covered += interval->low <= time_at(0.5) && time_at(0.5) <= interval->high ? 1 : 0;
  }
  return 100.0 * covered / runs;
}

// For 20 trials the percentile method is known to hold the median in 92% to 96%.
TEST(BootstrapMedian, CoversTheTrueMedianAsOftenAsItSays) {
  const double percent = covered_percent(20, 2000);
  EXPECT_GT(percent, 91);
  EXPECT_LT(percent, 97);
}

TEST(BootstrapMedian, CoversTheTrueMedianOfManyTrials) {
  const double percent = covered_percent(100, 1000);
  EXPECT_GT(percent, 93);
  EXPECT_LT(percent, 97);
}

// Conover's table of the sign test: for 8 values from the smallest to the largest (99.2%), for 9 from the second
// (96.1%), for 15 from the fourth (96.5%), for 20 from the sixth (95.9%).
TEST(ExactMedian, FallsOnTheOrderStatisticsOfTheSignTest) {
  const auto of_first = [](int n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 1);
    return exact_median_interval(values);
  };
  EXPECT_FALSE(of_first(1).has_value());
  EXPECT_FALSE(of_first(5).has_value());
  EXPECT_EQ(of_first(6), (Interval{1, 6}));
  EXPECT_EQ(of_first(8), (Interval{1, 8}));
  EXPECT_EQ(of_first(9), (Interval{2, 8}));
  EXPECT_EQ(of_first(15), (Interval{4, 12}));
  EXPECT_EQ(of_first(20), (Interval{6, 15}));
  EXPECT_THROW((void)exact_median_interval(std::vector{kNan}), Error);
}

// Tukey's fences of 1..12 and two more values: quartiles 3.25 and 9.75 (type 7), so the inner fences are at -6.5 and
// 19.5, the outer ones at -16.25 and 29.25. A value on a fence is no outlier.
TEST(Summarize, PutsTukeysFencesWhereTheyBelong) {
  std::vector<double> values(12);
  std::iota(values.begin(), values.end(), 1);
  const auto outliers = [&](double low, double high) {
    std::vector<double> all = values;
    all.insert(all.end(), {low, high});
    const Summary summary = summarize(all);
    EXPECT_EQ(summary.q1, 3.25);
    EXPECT_EQ(summary.q3, 9.75);
    return std::pair(summary.outliers_mild, summary.outliers_severe);
  };
  EXPECT_EQ(outliers(-6.5, 19.5), std::pair(std::int64_t{0}, std::int64_t{0}));
  EXPECT_EQ(outliers(-6.6, 19.6), std::pair(std::int64_t{2}, std::int64_t{0}));
  EXPECT_EQ(outliers(-16.25, 29.25), std::pair(std::int64_t{2}, std::int64_t{0}));
  EXPECT_EQ(outliers(-16.26, 29.26), std::pair(std::int64_t{0}, std::int64_t{2}));
}

TEST(Ratio, IsTheFactorByWhichTheNewTimesAreFaster) {
  const std::vector<double> base(9, 24.3);
  const Estimate ratio = ratio_with_interval(base, kTimes);
  EXPECT_DOUBLE_EQ(ratio.value, 2.0);
  // The base never varies, so the ends are those of the median interval of kTimes, inverted.
  ASSERT_TRUE(ratio.interval.has_value());
  EXPECT_DOUBLE_EQ(ratio.interval->low, 24.3 / 12.4);
  EXPECT_DOUBLE_EQ(ratio.interval->high, 24.3 / 12.0);
}

TEST(Ratio, ResamplesBothSidesIndependently) {
  // If both sides used one stream, every resample of equal trials would have the ratio 1 and the interval no width.
  const Estimate ratio = ratio_with_interval(kTimes, kTimes);
  EXPECT_DOUBLE_EQ(ratio.value, 1);
  ASSERT_TRUE(ratio.interval.has_value());
  EXPECT_LT(ratio.interval->low, 0.99);
  EXPECT_GT(ratio.interval->high, 1.01);
}

TEST(Ratio, SingleTrialHasNoInterval) {
  EXPECT_FALSE(ratio_with_interval(std::vector{2.0}, kTimes).interval.has_value());
  EXPECT_FALSE(ratio_with_interval(kTimes, std::vector{2.0}).interval.has_value());
  EXPECT_DOUBLE_EQ(ratio_with_interval(std::vector{3.0}, std::vector{2.0}).value, 1.5);
}

TEST(Ratio, RefusesTimesThatCannotBeDivided) {
  EXPECT_THROW((void)ratio_with_interval(kTimes, std::vector{1.0, 0.0}), Error);
  EXPECT_THROW((void)ratio_with_interval(std::vector{-1.0}, kTimes), Error);
  EXPECT_THROW((void)ratio_with_interval({}, kTimes), Error);
  EXPECT_THROW((void)ratio_with_interval(kTimes, std::vector{kNan}), Error);
}

}  // namespace
}  // namespace headroom
