#include "pipelines/schedules/respacing.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

// Values of scipy.stats.beta.ppf(p, 0.6, 0.6) in scipy 1.17.1.
TEST(Respacing, QuantilesOfABetaDistributionAreScipys) {
  EXPECT_NEAR(beta_quantile(1e-6, 0.6), 1.8558824624053043e-10, 1e-22);
  EXPECT_NEAR(beta_quantile(0.01, 0.6), 0.0008612388215429059, 1e-15);
  EXPECT_NEAR(beta_quantile(0.25, 0.6), 0.17568037865269498, 1e-14);
  EXPECT_NEAR(beta_quantile(0.5, 0.6), 0.5, 1e-14);
  EXPECT_NEAR(beta_quantile(0.9, 0.6), 0.9604155944112192, 1e-14);
  EXPECT_EQ(beta_quantile(0, 0.6), 0);
  EXPECT_EQ(beta_quantile(1, 0.6), 1);
}

TEST(Respacing, KeepsTheFirstAndTheLastLevel) {
  for (const auto kind : {Respacing::Kind::kKarras, Respacing::Kind::kExponential, Respacing::Kind::kBeta}) {
    const std::vector<double> levels = Respacing{.kind = kind}.levels(14.6, 0.03, 9);
    ASSERT_EQ(levels.size(), 9U);
    EXPECT_NEAR(levels.front(), 14.6, 1e-12);
    EXPECT_NEAR(levels.back(), 0.03, 1e-12);
    for (std::size_t i = 1; i < levels.size(); ++i) EXPECT_LT(levels[i], levels[i - 1]);
    EXPECT_NEAR(Respacing{.kind = kind}.levels(14.6, 0.03, 1).front(), 14.6, 1e-12);
  }
}

}  // namespace
}  // namespace headroom
