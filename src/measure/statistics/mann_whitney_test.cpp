#include "measure/statistics/mann_whitney.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Samples of n and m different values with that U: the first sample lies above u of the n * m pairs.
MannWhitney test_with_u(int n, int m, int u) {
  std::vector<double> first, second;
  for (int j = 0; j < m; ++j) second.push_back(j);
  for (int i = 0; i < n; ++i) {
    const int above = std::min(u, m);  // values of the second sample below this value
    u -= above;
    first.push_back(above - 0.5 + 0.01 * i);
  }
  return mann_whitney(first, second);
}

// The permeability example of Hollander and Wolfe, "Nonparametric Statistical Methods", 1973, p. 69, which R's
// documentation of wilcox.test runs: W = 35, one-sided p = 0.1272.
TEST(MannWhitney, MatchesThePublishedExample) {
  const MannWhitney test = mann_whitney(std::vector{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46},
                                        std::vector{1.15, 0.88, 0.90, 0.74, 1.21});
  EXPECT_TRUE(test.exact);
  EXPECT_EQ(test.u, 35);
  EXPECT_NEAR(test.p, 2 * 382.0 / 3003, 1e-12);
  EXPECT_NEAR(test.p / 2, 0.1272, 5e-5);
}

// The example of SciPy's documentation of mannwhitneyu: U = 17, p = 0.1111.
TEST(MannWhitney, MatchesSciPysExample) {
  const MannWhitney test = mann_whitney(std::vector<double>{19, 22, 16, 29, 24}, std::vector<double>{20, 11, 17, 12});
  EXPECT_EQ(test.u, 17);
  EXPECT_NEAR(test.p, 14.0 / 126, 1e-12);
}

// Critical values at a two-sided 5% from the tables of the test (Milton, "An extended table of critical values for the
// Mann-Whitney (Wilcoxon) two-sample statistic", JASA 59, 1964): the largest U that is significant.
TEST(MannWhitney, HasThePublishedCriticalValues) {
  struct Critical {
    int n, m, u;
  };
  for (const Critical& at : {Critical{4, 4, 0}, Critical{5, 5, 2}, Critical{5, 8, 6}, Critical{8, 8, 13},
                             Critical{10, 10, 23}, Critical{15, 20, 90}, Critical{20, 20, 127}}) {
    ASSERT_EQ(test_with_u(at.n, at.m, at.u).u, at.u);
    EXPECT_LE(test_with_u(at.n, at.m, at.u).p, 0.05) << at.n << " and " << at.m;
    EXPECT_GT(test_with_u(at.n, at.m, at.u + 1).p, 0.05) << at.n << " and " << at.m;
  }
}

// Expected values from an exhaustive count by another program: 40 of 462 and 3 of 126 arrangements give a U as small.
TEST(MannWhitney, IsExactUnderTies) {
  const MannWhitney test = mann_whitney(std::vector<double>{1, 2, 2, 3, 5}, std::vector<double>{2, 3, 3, 4, 6, 6});
  EXPECT_TRUE(test.exact);
  EXPECT_EQ(test.u, 7);
  EXPECT_NEAR(test.p, 2 * 40.0 / 462, 1e-12);
  const MannWhitney tied = mann_whitney(std::vector<double>{1, 1, 1, 2}, std::vector<double>{2, 2, 3, 3, 3});
  EXPECT_EQ(tied.u, 1);
  EXPECT_NEAR(tied.p, 2 * 3.0 / 126, 1e-12);
}

// Expected values from the formula in Python.
TEST(MannWhitney, ApproximatesLargeSamplesWithTies) {
  const std::vector<double> first = {0,  8, 16, 21, 6, 14, 19, 4, 12, 17, 2, 10, 15,
                                     23, 8, 13, 21, 6, 11, 19, 4, 9,  17, 2, 7};
  const std::vector<double> second = {6,  11, 16, 21, 26, 8,  13, 18, 23, 28, 10,
                                      15, 20, 25, 7,  12, 17, 22, 27, 9,  14, 19};
  const MannWhitney test = mann_whitney(first, second);
  EXPECT_FALSE(test.exact);
  EXPECT_EQ(test.u, 162);
  EXPECT_NEAR(test.p, 0.01636240764107665, 1e-12);
}

TEST(MannWhitney, ApproximationJoinsTheExactDistribution) {
  // 21 values on a side are approximated, 20 are not: about the same share of the pairs must give about the same p.
  const MannWhitney exact = test_with_u(20, 20, 130);
  const MannWhitney approximate = test_with_u(21, 21, 145);
  EXPECT_TRUE(exact.exact);
  EXPECT_FALSE(approximate.exact);
  EXPECT_NEAR(exact.p, approximate.p, 0.005);
}

TEST(MannWhitney, SwapsSides) {
  const std::vector<double> first = {1, 2, 2, 9}, second = {2, 5, 7};
  EXPECT_EQ(mann_whitney(first, second).u + mann_whitney(second, first).u, 12);
  EXPECT_EQ(mann_whitney(first, second).p, mann_whitney(second, first).p);
}

TEST(MannWhitney, FindsNothingInEqualValues) {
  EXPECT_EQ(mann_whitney(std::vector<double>(8, 3), std::vector<double>(8, 3)).p, 1);
  EXPECT_EQ(mann_whitney(std::vector<double>(30, 3), std::vector<double>(30, 3)).p, 1);
  EXPECT_EQ(mann_whitney(std::vector<double>{1}, std::vector<double>{2}).p, 1);
}

TEST(MannWhitney, RefusesNothingAndNonFiniteValues) {
  EXPECT_THROW((void)mann_whitney({}, std::vector{1.0}), Error);
  EXPECT_THROW((void)mann_whitney(std::vector{1.0}, {}), Error);
  EXPECT_THROW((void)mann_whitney(std::vector{1.0}, std::vector{std::numeric_limits<double>::infinity()}), Error);
}

}  // namespace
}  // namespace headroom
