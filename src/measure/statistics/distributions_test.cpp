#include "measure/statistics/distributions.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(Distributions, HaveTheQuantilesOfPublishedTables) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959964, 1e-6);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-12);
  EXPECT_NEAR(students_t_quantile(5, 0.975), 2.570582, 1e-6);
  EXPECT_NEAR(students_t_quantile(1, 0.975), 12.706205, 1e-6);
}

TEST(Distributions, CountBothSidesOfANormal) {
  EXPECT_NEAR(two_sided_normal_p(normal_quantile(0.975)), 0.05, 1e-12);
  EXPECT_DOUBLE_EQ(two_sided_normal_p(0), 1);
}

TEST(Distributions, CountTheCasesOfABinomial) {
  EXPECT_NEAR(binomial_cdf(4, 0.5, 1), 5.0 / 16, 1e-12);
  EXPECT_NEAR(binomial_tail(4, 0.5, 1), 11.0 / 16, 1e-12);
  EXPECT_NEAR(binomial_tail(3, 0.1, 2), 1e-3, 1e-15);
}

}  // namespace
}  // namespace headroom
