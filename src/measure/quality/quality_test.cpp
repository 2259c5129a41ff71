#include "measure/quality/quality.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

TEST(Psnr, MatchesItsDefinition) {
  // Every element is off by 0.02 against a peak of 2: 20 log10(2 / 0.02) = 40 dB.
  const std::vector<float> reference = {-1, -0.5F, 0, 0.5F};
  std::vector<float> images = reference;
  for (float& value : images) value += 0.02F;
  const auto psnr = psnr_db(reference, images);
  ASSERT_TRUE(psnr.has_value());
  EXPECT_NEAR(*psnr, 40, 1e-4);
  EXPECT_NEAR(*psnr_db(reference, images, 1), 40 - 20 * std::log10(2), 1e-4);
}

TEST(Psnr, AveragesOverAllElements) {
  // One of four elements is off by 2 with a peak of 2: MSE = 1, 10 log10(4 / 1).
  EXPECT_NEAR(*psnr_db(std::vector<float>{1, 0, 0, 0}, std::vector<float>{-1, 0, 0, 0}), 10 * std::log10(4.0), 1e-12);
}

TEST(Psnr, IdenticalImagesHaveNone) {
  const std::vector<float> images = {0.1F, 0.2F};
  EXPECT_FALSE(psnr_db(images, images).has_value());
}

TEST(MeanEstimate, HasTheIntervalOfItsSpread) {
  const Estimate estimate = mean_estimate(std::vector<double>{1, 2, 3, 6});
  EXPECT_DOUBLE_EQ(estimate.value, 3);
  ASSERT_TRUE(estimate.interval.has_value());
  constexpr double kStudent = 3.182446;  // of 3 degrees of freedom, 0.975
  EXPECT_NEAR(estimate.interval->high - 3, kStudent * std::sqrt(14.0 / 3 / 4), 1e-5);
  EXPECT_NEAR(3 - estimate.interval->low, kStudent * std::sqrt(14.0 / 3 / 4), 1e-5);
  EXPECT_FALSE(mean_estimate(std::vector<double>{5}).interval.has_value());
  EXPECT_THROW(static_cast<void>(mean_estimate({})), Error);
}

TEST(PsnrEstimate, IsThatOfAllImagesWithAnIntervalOverThem) {
  // Squared errors of 0.01, 0.03: 0.02 on average, and Student's t of one degree of freedom, 12.7062, times 0.01.
  const std::optional<Estimate> psnr = psnr_estimate(std::vector<double>{0.01, 0.03});
  ASSERT_TRUE(psnr && psnr->interval);
  EXPECT_NEAR(psnr->value, 10 * std::log10(4 / 0.02), 1e-12);
  EXPECT_NEAR(psnr->interval->high - psnr->value, 10 / std::log(10.0) * 12.7062 * 0.01 / 0.02, 1e-3);
  EXPECT_NEAR(psnr->value - psnr->interval->low, psnr->interval->high - psnr->value, 1e-9);
  // One of two images is identical: the other one's error is half of the mean.
  EXPECT_NEAR(psnr_estimate(std::vector<double>{0, 0.04}, 1)->value, 10 * std::log10(1 / 0.02), 1e-12);
  EXPECT_FALSE(psnr_estimate(std::vector<double>{0.02})->interval) << "one image says nothing of others";
  EXPECT_FALSE(psnr_estimate(std::vector<double>{0, 0}));
  EXPECT_THROW((void)psnr_estimate({}), Error);
  EXPECT_THROW((void)psnr_estimate(std::vector<double>{-1}), Error);
  EXPECT_THROW((void)psnr_estimate(std::vector<double>{1}, 0), Error);
}

TEST(Psnr, RefusesWhatCannotBeJudged) {
  const std::vector<float> two = {0, 1};
  EXPECT_THROW((void)psnr_db(two, std::vector<float>{0}), Error);
  EXPECT_THROW((void)psnr_db({}, {}), Error);
  EXPECT_THROW((void)psnr_db(two, std::vector<float>{0, kFloatNan}), Error);
  EXPECT_THROW((void)psnr_db(std::vector<float>{kFloatNan, 1}, two), Error);
  EXPECT_THROW((void)psnr_db(two, two, 0), Error);
}

TEST(FeatureStatistics, MatchesHandComputedMoments) {
  FeatureStatistics statistics(2);
  statistics.add(std::vector<float>{1, 10, 3, 14, 5, 12});  // rows (1,10) (3,14) (5,12)
  EXPECT_EQ(statistics.count(), 3);
  EXPECT_EQ(statistics.mean(), (std::vector<double>{3, 12}));
  EXPECT_EQ(statistics.covariance(), (std::vector<double>{4, 2, 2, 4}));
}

TEST(FeatureStatistics, DoesNotDependOnBatches) {
  constexpr std::size_t kWidth = 5;
  std::mt19937 engine(7);
  std::vector<float> features(60 * kWidth);
  for (float& value : features) value = static_cast<float>(engine() % 1000) / 100;
  FeatureStatistics whole(kWidth);
  whole.add(features);
  FeatureStatistics parts(kWidth);
  const std::span<const float> all(features);
  parts.add(all.first(kWidth));
  parts.add(all.subspan(kWidth, 17 * kWidth));
  parts.add({});
  parts.add(all.subspan(18 * kWidth));
  ASSERT_EQ(parts.count(), whole.count());
  const std::vector<double> expected = whole.covariance();
  const std::vector<double> covariance = parts.covariance();
  for (std::size_t i = 0; i < kWidth; ++i) EXPECT_NEAR(parts.mean()[i], whole.mean()[i], 1e-12);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(covariance[i], expected[i], 1e-11);
}

TEST(FeatureStatistics, KeepsASmallSpreadOnALargeMean) {
  // Sums of squares in double would lose this: (1e7)^2 * 4 leaves an absolute precision of 0.06.
  FeatureStatistics statistics(1);
  statistics.add(std::vector<float>{10000000, 10000001});
  statistics.add(std::vector<float>{10000002, 10000003});
  EXPECT_NEAR(statistics.covariance()[0], 5.0 / 3, 1e-9);
}

TEST(FeatureStatistics, RefusesWhatItCannotUse) {
  EXPECT_THROW(FeatureStatistics(0), Error);
  FeatureStatistics statistics(2);
  EXPECT_THROW(statistics.add(std::vector<float>{1, 2, 3}), Error);
  EXPECT_THROW(statistics.add(std::vector<float>{1, kFloatNan}), Error);
  EXPECT_THROW((void)statistics.mean(), Error);
  statistics.add(std::vector<float>{1, 2});
  EXPECT_THROW((void)statistics.covariance(), Error);
}

/// R diag(values) R^T for the rotation R by `angle` in the plane.
std::vector<double> rotated(double first, double second, double angle) {
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  return {c * c * first + s * s * second, c * s * (first - second), c * s * (first - second),
          s * s * first + c * c * second};
}

// Diagonal covariances commute, so the distance is |m1 - m2|^2 + sum (sqrt(a_i) - sqrt(b_i))^2.
TEST(FrechetDistance, OfDiagonalCovariances) {
  const std::vector<double> mean1 = {1, 2};
  const std::vector<double> mean2 = {4, 6};
  EXPECT_NEAR(frechet_distance(mean1, rotated(9, 1, 0), mean2, rotated(4, 25, 0)), 25 + 1 + 16, 1e-12);
}

TEST(FrechetDistance, IsUnchangedWhenBothAreRotated) {
  const std::vector<double> zero = {0, 0};
  EXPECT_NEAR(frechet_distance(zero, rotated(9, 1, 0.7), zero, rotated(4, 25, 0.7)), 17, 1e-12);
}

// For 2 x 2 matrices tr sqrt(A) = sqrt(tr A + 2 sqrt(det A)). With A = C1^1/2 C2 C1^1/2, tr A = tr(C1 C2) and det A =
// det C1 det C2. C1 = diag(9, 1), C2 = diag(9, 1) rotated by a quarter turn / 2: tr(C1 C2) = 9 * 5 + 1 * 5 = 50, det
// = 81.
TEST(FrechetDistance, OfCovariancesThatDoNotCommute) {
  const std::vector<double> zero = {0, 0};
  const double cross = std::sqrt(50 + 2 * std::sqrt(81.0));
  const double expected = 10 + 10 - 2 * cross;
  const double quarter_pi = std::atan(1.0);
  EXPECT_NEAR(frechet_distance(zero, rotated(9, 1, 0), zero, rotated(9, 1, quarter_pi)), expected, 1e-12);
  EXPECT_GT(expected, 1);  // far from the 0 that commuting roots would give
}

TEST(FrechetDistance, IsSymmetricAndZeroForEqualDistributions) {
  const std::vector<double> mean = {0.3, -2};
  const auto a = rotated(5, 0.2, 0.3);
  const auto b = rotated(2, 3, 1.1);
  EXPECT_NEAR(frechet_distance(mean, a, mean, a), 0, 1e-12);
  EXPECT_GE(frechet_distance(mean, a, mean, a), 0);
  EXPECT_NEAR(frechet_distance(mean, a, mean, b), frechet_distance(mean, b, mean, a), 1e-12);
}

TEST(FrechetDistance, HandlesSingularCovariances) {
  // Fewer vectors than features give these; here the second lies on a line: (3-0)^2 + (1-1)^2. Roots turn rounding
  // of 1e-16 around a zero eigenvalue into 1e-8.
  const std::vector<double> zero = {0, 0};
  EXPECT_NEAR(frechet_distance(zero, rotated(9, 1, 0.4), zero, rotated(0, 1, 0.4)), 9, 1e-6);
}

TEST(FrechetDistance, OfGatheredFeatures) {
  // Equal clouds, one moved by (3, 4): only the means differ.
  FeatureStatistics here(2);
  FeatureStatistics there(2);
  here.add(std::vector<float>{0, 0, 1, 0, 0, 1, 2, 2});
  there.add(std::vector<float>{3, 4, 4, 4, 3, 5, 5, 6});
  EXPECT_NEAR(frechet_distance(here, there), 25, 1e-12);
}

TEST(FrechetDistance, RefusesWhatIsNoCovariance) {
  const std::vector<double> zero = {0, 0};
  const auto good = rotated(1, 1, 0);
  EXPECT_THROW((void)frechet_distance(zero, good, std::vector<double>{0}, good), Error);
  EXPECT_THROW((void)frechet_distance(zero, good, zero, std::vector<double>{1}), Error);
  EXPECT_THROW((void)frechet_distance(zero, good, zero, std::vector<double>{1, 0.5, -0.5, 1}), Error);
  EXPECT_THROW((void)frechet_distance(zero, good, zero, rotated(1, -1, 0)), Error);
  EXPECT_THROW((void)frechet_distance(zero, rotated(1, -1, 0.3), zero, good), Error);
  EXPECT_THROW((void)frechet_distance(std::vector<double>{0, std::nan("")}, good, zero, good), Error);
  EXPECT_THROW((void)frechet_distance({}, {}, {}, {}), Error);
}

// Expected ends from the closed form in exact decimal arithmetic (Python's decimal module). Newcombe, "Two-sided
// confidence intervals for the single proportion" (1998), table I, prints 0.2553 and 0.3662 for 81 of 263.
/// Rows of two features, of which the second is correlated with the first.
std::vector<float> leaning_rows(std::size_t count, unsigned seed, float mean) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const float first = mean + normal(engine);
    rows.insert(rows.end(), {first, 0.5F * first + normal(engine)});
  }
  return rows;
}
const std::vector<double> kCentre = {0, 0}, kRound = {1, 0, 0, 1};

TEST(FrechetSample, SaysHowTheDistanceMovesWithTheWeightOfARow) {
  constexpr std::size_t kRows = 2000;
  const std::vector<float> rows = leaning_rows(kRows, 3, 0.4F);
  const FrechetSample sample = sample_frechet(rows, kCentre, kRound);
  ASSERT_EQ(sample.influence.size(), kRows);
  double sum = 0;
  for (const double each : sample.influence) sum += each;
  EXPECT_NEAR(sum / kRows, 0, 1e-12);
  for (const std::size_t row : {0U, 7U, 1234U}) {  // repeated rows
    std::vector<float> heavier = rows;
    heavier.insert(heavier.end(), {rows[2 * row], rows[2 * row + 1]});
    const double moved = sample_frechet(heavier, kCentre, kRound).value - sample.value;
    EXPECT_NEAR(moved * (kRows + 1), sample.influence[row], 0.02 + 0.02 * std::abs(sample.influence[row]));
  }
}

TEST(FrechetSample, ItsIntervalIsAsWideAsSetsOfImagesAreApart) {
  constexpr int kSets = 400;
  double sum = 0, squares = 0, width = 0;
  for (int set = 0; set < kSets; ++set) {
    const Estimate distance = frechet_estimate(sample_frechet(leaning_rows(300, 100U + set, 0.4F), kCentre, kRound));
    sum += distance.value;
    squares += distance.value * distance.value;
    width += (distance.interval->high - distance.interval->low) / kSets;
  }
  const double deviation = std::sqrt(squares / kSets - (sum / kSets) * (sum / kSets));
  EXPECT_NEAR(width / (2 * 1.96 * deviation), 1, 0.1);
}

TEST(FrechetSample, WhatTwoSetsHaveInCommonIsNoDifference) {
  const std::vector<float> rows = leaning_rows(300, 5, 0.4F);
  std::vector<float> further = rows;
  for (float& value : further) value += 0.1F;
  const FrechetSample base = sample_frechet(rows, kCentre, kRound), other = sample_frechet(further, kCentre, kRound);
  const Estimate same = frechet_difference(base, base), difference = frechet_difference(base, other);
  EXPECT_EQ(same.value, 0);
  EXPECT_EQ(same.interval->high, 0);
  EXPECT_NEAR(difference.value, other.value - base.value, 1e-12);
  EXPECT_GT(difference.interval->low, 0);
  const Interval own = *frechet_estimate(other).interval;
  EXPECT_LT(difference.interval->high - difference.interval->low, 0.5 * (own.high - own.low));
  EXPECT_THROW((void)frechet_difference(base, sample_frechet(leaning_rows(20, 5, 0), kCentre, kRound)), Error);
}

TEST(FrechetSample, TakesFeaturesThatNeverLight) {
  std::vector<float> rows = leaning_rows(300, 5, 0.4F);
  for (std::size_t i = 1; i < rows.size(); i += 2) rows[i] = 0;
  const FrechetSample sample = sample_frechet(rows, kCentre, std::vector<double>{1, 0, 0, 0});
  for (const double each : sample.influence) EXPECT_TRUE(std::isfinite(each));
}

TEST(Accuracy, HasTheWilsonInterval) {
  const Estimate estimate = accuracy(81, 263);
  EXPECT_DOUBLE_EQ(estimate.value, 81.0 / 263);
  ASSERT_TRUE(estimate.interval.has_value());
  EXPECT_NEAR(estimate.interval->low, 0.2552885198782742, 1e-12);
  EXPECT_NEAR(estimate.interval->high, 0.3662095769828, 1e-12);
}

TEST(Accuracy, StaysWithinBoundsAtBothEnds) {
  const Estimate all = accuracy(10, 10);
  EXPECT_EQ(all.interval->high, 1);
  EXPECT_NEAR(all.interval->low, 10 / (10 + 3.841458820694124), 1e-12);  // n / (n + z^2)
  const Estimate none = accuracy(0, 10);
  EXPECT_EQ(none.interval->low, 0);
  EXPECT_NEAR(none.interval->high, 1 - all.interval->low, 1e-12);
}

TEST(Accuracy, RefusesImpossibleCounts) {
  EXPECT_THROW((void)accuracy(1, 0), Error);
  EXPECT_THROW((void)accuracy(-1, 5), Error);
  EXPECT_THROW((void)accuracy(6, 5), Error);
}

}  // namespace
}  // namespace headroom
