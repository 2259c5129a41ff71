#include "measure/statistics/change_points.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

using ::testing::IsEmpty;

/// Levels with the given numbers of values, with normal noise.
std::vector<double> levels(const std::vector<std::pair<double, int>>& parts, double noise, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> series;
  for (const auto& [level, count] : parts)
    for (int i = 0; i < count; ++i) series.push_back(level + noise * normal(engine));
  return series;
}

TEST(ChangePoints, FindsAStep) {
  const std::vector<double> series = {10, 10.1, 9.9, 10, 10.1, 12, 12.1, 11.9, 12, 12.1};
  const std::vector<ChangePoint> found = find_change_points(series);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].index, 5U);
  EXPECT_EQ(found[0].before, 10);
  EXPECT_EQ(found[0].after, 12);
  EXPECT_LE(found[0].p, 0.05);
}

// A step of 4 values to 4: 2 of the 70 arrangements separate the levels, so p is near 2 / 70 = 0.029. With 3 and 3
// values it is 2 / 20, which is no evidence.
TEST(ChangePoints, HasThePermutationTestsP) {
  const std::vector<ChangePoint> found =
      find_change_points(std::vector<double>{1, 1.01, 1.02, 1.03, 2, 2.01, 2.02, 2.03});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].index, 4U);
  EXPECT_NEAR(found[0].p, 2.0 / 70, 0.02);
  EXPECT_THAT(find_change_points(std::vector<double>{1, 1.01, 1.02, 2, 2.01, 2.02}), IsEmpty());
}

TEST(ChangePoints, FindsSeveralSteps) {
  const std::vector<double> series = levels({{10, 15}, {11, 12}, {9.5, 20}}, 0.1, 3);
  const std::vector<ChangePoint> found = find_change_points(series);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].index, 15U);
  EXPECT_EQ(found[1].index, 27U);
  EXPECT_NEAR(found[1].before, 11, 0.1);
  EXPECT_NEAR(found[1].after, 9.5, 0.1);
}

TEST(ChangePoints, FindsTheStepUnderNoiseAsLargeAsHalfOfIt) {
  int near = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<ChangePoint> found = find_change_points(levels({{10, 20}, {11, 20}}, 0.5, seed));
    for (const ChangePoint& point : found) near += point.index >= 17 && point.index <= 23 ? 1 : 0;
  }
  EXPECT_GE(near, 18);
}

TEST(ChangePoints, RaisesFewFalseAlarms) {
  int alarms = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    alarms += find_change_points(levels({{10, 30}}, 0.3, seed), {.permutations = 199}).empty() ? 0 : 1;
  EXPECT_LE(alarms, 20);  // 10 expected of 200
}

TEST(ChangePoints, LooksPastASingleOutlier) {
  std::vector<double> series = levels({{10, 30}}, 0.1, 5);
  series[12] = 15;
  EXPECT_THAT(find_change_points(series), IsEmpty());
}

TEST(ChangePoints, FindsNothingInShortOrConstantSeries) {
  EXPECT_THAT(find_change_points({}), IsEmpty());
  EXPECT_THAT(find_change_points(std::vector<double>{1, 9}), IsEmpty());
  EXPECT_THAT(find_change_points(std::vector<double>(20, 3.3)), IsEmpty());
}

TEST(ChangePoints, IsDeterministic) {
  const std::vector<double> series = levels({{10, 10}, {10.3, 10}}, 0.2, 8);
  EXPECT_EQ(find_change_points(series), find_change_points(series));
}

TEST(ChangePoints, RefusesNonFiniteValues) {
  EXPECT_THROW((void)find_change_points(std::vector{1.0, std::numeric_limits<double>::quiet_NaN()}), Error);
}

}  // namespace
}  // namespace headroom
