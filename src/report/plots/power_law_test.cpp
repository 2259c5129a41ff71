#include "report/plots/power_law.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headroom {
namespace {

TEST(PowerLaw, FindsExponentAndScaleOfAnExactLaw) {
  const std::vector<double> x = {1, 4, 16, 64};
  std::vector<double> y;
  for (const double each : x) y.push_back(3 * std::pow(each, 1.5));
  const PowerLaw law = fit_power_law(x, y);
  EXPECT_NEAR(law.exponent, 1.5, 1e-12);
  EXPECT_NEAR(law.scale, 3, 1e-12);
  EXPECT_NEAR(law.interval.high - law.interval.low, 0, 1e-9);
  EXPECT_NEAR(law.at(9), 81, 1e-9);
}

TEST(PowerLaw, HasStudentsInterval) {
  // Natural logarithms at u = 0, 1, 2 are 0, 1.3, 2: slope 1, residuals -0.1, 0.2, -0.1, one degree of freedom. By
  // hand, the standard error is sqrt(0.06 / 1 / 2), and Student's 97.5% quantile is 12.7062.
  const std::vector<double> x = {1, std::exp(1), std::exp(2)}, y = {1, std::exp(1.3), std::exp(2)};
  const PowerLaw law = fit_power_law(x, y);
  EXPECT_NEAR(law.exponent, 1, 1e-12);
  EXPECT_NEAR(law.interval.high - law.exponent, 12.7062 * std::sqrt(0.03), 1e-3);
  EXPECT_NEAR(law.exponent - law.interval.low, 12.7062 * std::sqrt(0.03), 1e-3);
  EXPECT_EQ(law.exponent_text(), "1.00 [-1.20, 3.20]");
}

TEST(PowerLaw, TakesThreeDifferentPoints) {
  const std::vector<double> two = {1, 2}, same = {2, 2, 2}, three = {1, 2, 3}, zero = {0, 1, 2};
  EXPECT_THROW((void)fit_power_law(two, two), std::logic_error);
  EXPECT_THROW((void)fit_power_law(same, three), std::logic_error);
  EXPECT_THROW((void)fit_power_law(three, zero), std::logic_error);
}

}  // namespace
}  // namespace headroom
