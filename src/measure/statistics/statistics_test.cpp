#include "measure/statistics/statistics.hpp"

#include <gtest/gtest.h>

#include <boost/math/distributions/normal.hpp>
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
  EXPECT_THROW((void)median_interval({}), Error);
  EXPECT_THROW((void)median_interval(std::vector{1.0, -kInfinity}), Error);
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

// For n = 11 the interval from x_(2) to x_(10) misses the median with 2 * 12 / 2048 = 1.17%, that from x_(3) to x_(9)
// with 2 * 67 / 2048 = 6.54%. The share of the narrower is 0.7127, and its weight 9 * 0.7127 / (2 + 7 * 0.7127) =
// 0.9178.
TEST(MedianInterval, InterpolatesBetweenOrderStatistics) {
  std::vector<double> values(11);
  std::iota(values.begin(), values.end(), 1);
  const Interval interval = *median_interval(values);
  EXPECT_NEAR(interval.low, 2.9178, 1e-4);
  EXPECT_NEAR(interval.high, 9.0822, 1e-4);
}

// All of 5 trials lie on one side of the median in one of 16 cases, so no interval within them holds it with 95%.
TEST(MedianInterval, OfFewerThanSixTrialsIsNone) {
  for (std::size_t count = 1; count < 6; ++count) {
    std::vector<double> trials(count, 10.0);
    trials.back() = 11;
    EXPECT_FALSE(median_interval(trials)) << count;
    EXPECT_FALSE(summarize(trials).median_interval) << count;
  }
  EXPECT_TRUE(median_interval(std::vector<double>{10, 10, 10, 10, 10, 11}));
  EXPECT_EQ(too_few_for_interval(3), "3 trials give no 95% interval, 6 would");
  EXPECT_EQ(too_few_for_interval(1, "frame"), "1 frame gives no 95% interval, 6 would");
}

/// Draws trials of a distribution with a known median by its quantile function, of uniform numbers.
struct TrialLaw {
  const char* name;
  double (*quantile)(double u);
};
constexpr double kPi = 3.14159265358979323846;
double normal_quantile(double u) { return quantile(boost::math::normal(), u); }
const TrialLaw kTrialLaws[] = {
    {"normal", normal_quantile},
    {"Cauchy", [](double u) { return std::tan(kPi * (u - 0.5)); }},
    {"Student of 2 degrees", [](double u) { return (2 * u - 1) / std::sqrt(2 * u * (1 - u)); }},
    {"Laplace", [](double u) { return u < 0.5 ? std::log(2 * u) : -std::log(2 * (1 - u)); }},
    {"lognormal", [](double u) { return std::exp(normal_quantile(u)); }},
    {"one in 20 is slow", [](double u) { return 10 + u + (u > 0.95 ? 100 * (u - 0.95) : 0); }}};

/// The share of runs in which the interval of `count` trials contains the median.
double covered_percent(const TrialLaw& distribution, std::size_t count, int runs) {
  std::mt19937_64 engine(20240607);
  std::vector<double> trials(count);
  const double middle = distribution.quantile(0.5);
  int covered = 0;
  for (int run = 0; run < runs; ++run) {
    for (double& trial : trials) trial = distribution.quantile((static_cast<double>(engine() >> 11U) + 0.5) * 0x1p-53);
    const Interval interval = *median_interval(trials);
    covered += interval.low <= middle && middle <= interval.high ? 1 : 0;
  }
  return 100.0 * covered / runs;
}

// The standard error of a coverage is 0.2 points. Light tails cover a little less: the method is exact for the Laplace
// distribution.
TEST(MedianInterval, CoversTheMedianAsOftenAsItSays) {
  for (const TrialLaw& distribution : kTrialLaws)
    for (const std::size_t count : {6U, 7U, 8U, 12U, 20U}) {
      const double percent = covered_percent(distribution, count, 12'000);
      EXPECT_GT(percent, 93.7) << distribution.name << ", " << count;
      EXPECT_LT(percent, 96) << distribution.name << ", " << count;
    }
  for (const std::size_t count : {7U, 8U, 12U, 20U})
    EXPECT_GT(covered_percent(kTrialLaws[0], count, 12'000), 94) << count;
  EXPECT_NEAR(covered_percent(kTrialLaws[0], 100, 5'000), 95, 1);
}

// The asymptotic interval of a normal distribution's median has the half width 1.96 * sqrt(pi / 2 / n).
TEST(MedianInterval, OfManyTrialsIsNoWiderThanNeeded) {
  constexpr std::size_t kCount = 400;
  std::vector<double> quantiles(kCount);  // of the distribution itself, so that there is no noise
  for (std::size_t i = 0; i < kCount; ++i) quantiles[i] = normal_quantile((static_cast<double>(i) + 0.5) / kCount);
  const Interval interval = *median_interval(quantiles);
  EXPECT_NEAR(interval.high, 1.959964 * std::sqrt(kPi / 2 / kCount), 0.03 * interval.high);
  EXPECT_NEAR(interval.low, -interval.high, 1e-9);
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

Estimate median_of(std::span<const double> times) { return {median(times), median_interval(times)}; }

TEST(Ratio, IsTheFactorByWhichTheNewTimesAreFaster) {
  const Estimate ratio = ratio_of(median_of(std::vector<double>(9, 24.3)), median_of(kTimes));
  EXPECT_DOUBLE_EQ(ratio.value, 2.0);
  // The base never varies, so the ends are those of the median interval of kTimes, inverted.
  const Interval of_new = *median_interval(kTimes);
  ASSERT_TRUE(ratio.interval.has_value());
  EXPECT_NEAR(ratio.interval->low, 24.3 / of_new.high, 1e-12);
  EXPECT_NEAR(ratio.interval->high, 24.3 / of_new.low, 1e-12);
}

TEST(Ratio, CombinesTheErrorsOfBothSides) {
  const Estimate ratio = ratio_of(median_of(kTimes), median_of(kTimes));
  EXPECT_DOUBLE_EQ(ratio.value, 1);
  const Interval one = *median_interval(kTimes);
  const double down = std::log(median(kTimes) / one.low), up = std::log(one.high / median(kTimes));
  ASSERT_TRUE(ratio.interval.has_value());
  EXPECT_NEAR(std::log(ratio.interval->high), std::hypot(down, up), 1e-12);
  EXPECT_NEAR(std::log(ratio.interval->low), -std::hypot(down, up), 1e-12);
}

TEST(Ratio, SingleTrialHasNoInterval) {
  EXPECT_FALSE(ratio_of(median_of(std::vector{2.0}), median_of(kTimes)).interval.has_value());
  EXPECT_FALSE(ratio_of(median_of(kTimes), median_of(std::vector{2.0})).interval.has_value());
  EXPECT_DOUBLE_EQ(ratio_of({3.0, {}}, {2.0, {}}).value, 1.5);
}

}  // namespace
}  // namespace headroom
