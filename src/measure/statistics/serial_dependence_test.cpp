#include "measure/statistics/serial_dependence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

/// An autoregressive series: each value is `correlation` times the previous one plus noise, with variance 1.
std::vector<double> autoregressive(std::mt19937_64& engine, std::size_t n, double correlation) {
  std::normal_distribution<double> normal;
  std::vector<double> values = {normal(engine)};
  while (values.size() < n)
    values.push_back(correlation * values.back() + std::sqrt(1 - correlation * correlation) * normal(engine));
  return values;
}

TEST(BlockMedians, KeepsFewAndGathersMany) {
  EXPECT_THAT(block_medians(std::vector<double>{3, 1, 2}, 4), ElementsAre(3, 1, 2));
  EXPECT_THAT(block_medians(std::vector<double>{1, 9, 2, 4, 5, 90, 7}, 3), ElementsAre(2, 6));  // blocks of 3 and of 4
  EXPECT_THAT(block_medians(std::vector<double>(1000, 1.0)), SizeIs(15));
}

TEST(SerialDependence, TellsADriftFromNoise) {
  std::mt19937_64 engine(3);
  int drifting = 0, independent = 0;
  for (int run = 0; run < 200; ++run) {
    const auto both = [&](double correlation) {
      return serial_dependence(autoregressive(engine, 12, correlation), autoregressive(engine, 12, correlation));
    };
    drifting += both(0.9).is_drifting ? 1 : 0;
    independent += both(0).is_drifting ? 0 : 1;
  }
  EXPECT_GE(drifting, 195);
  EXPECT_GE(independent, 100);
}

TEST(SerialDependence, IsOneStandardErrorAboveItsEstimate) {
  // Steps of 1 on each side: squares of steps 2 * 3, squares about the means 2 * 5, so 1 - 6 / 20; the error is 1 /
  // sqrt(6).
  const std::vector<double> line = {1, 2, 3, 4};
  EXPECT_NEAR(serial_dependence(line, line).correlation, 0.9, 1e-12) << "at most";
  const std::vector<double> turning = {1, 4, 2, 3};  // 9 + 4 + 1 as squares of steps
  EXPECT_NEAR(serial_dependence(turning, turning).correlation, std::max(0.0, 1 - 28.0 / 20 + 1 / std::sqrt(6)), 1e-12);
  EXPECT_FALSE(serial_dependence(turning, turning).is_drifting);
}

TEST(SerialDependence, IsNoneForTooFewOrConstantTrials) {
  EXPECT_EQ(serial_dependence(std::vector<double>{1, 2}, std::vector<double>{3, 4}).correlation, 0);
  EXPECT_EQ(serial_dependence(std::vector<double>(8, 1), std::vector<double>(8, 1)).correlation, 0);
}

TEST(VarianceInflation, IsThatOfTheMean) {
  EXPECT_EQ(variance_inflation(0, 10), 1);
  EXPECT_EQ(variance_inflation(1, 4), 4);
  EXPECT_NEAR(variance_inflation(0.5, 3), 1 + 2 * (2.0 / 3 * 0.5 + 1.0 / 3 * 0.25), 1e-12);
  // Measured: the mean of 8.
  std::mt19937_64 engine(4);
  double squares = 0;
  for (int run = 0; run < 20'000; ++run) {
    const std::vector<double> values = autoregressive(engine, 8, 0.7);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 8;
    squares += mean * mean / 20'000;
  }
  EXPECT_NEAR(8 * squares, variance_inflation(0.7, 8), 0.05 * 8 * squares);
}

}  // namespace
}  // namespace headroom
