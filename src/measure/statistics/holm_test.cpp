#include "measure/statistics/holm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

// The example of Wikipedia, "Holm-Bonferroni method": 0.005 * 4, 0.01 * 3, 0.03 * 2, then 0.04, which may not be less.
TEST(Holm, AdjustsThePublishedExample) {
  EXPECT_THAT(
      holm_adjust(std::vector{0.01, 0.04, 0.03, 0.005}),
      ElementsAre(DoubleNear(0.03, 1e-12), DoubleNear(0.06, 1e-12), DoubleNear(0.06, 1e-12), DoubleNear(0.02, 1e-12)));
}

TEST(Holm, NeverExceedsOneAndKeepsTiesEqual) {
  EXPECT_THAT(holm_adjust(std::vector{0.6, 0.02, 0.6}), ElementsAre(1.0, DoubleNear(0.06, 1e-12), 1.0));
  EXPECT_THAT(holm_adjust(std::vector{0.01, 0.01}), ElementsAre(DoubleNear(0.02, 1e-12), DoubleNear(0.02, 1e-12)));
}

TEST(Holm, LeavesASingleTestAlone) {
  EXPECT_THAT(holm_adjust(std::vector{0.03}), ElementsAre(0.03));
  EXPECT_TRUE(holm_adjust({}).empty());
}

TEST(Holm, RefusesWhatIsNoProbability) {
  EXPECT_THROW((void)holm_adjust(std::vector{1.5}), Error);
  EXPECT_THROW((void)holm_adjust(std::vector{-0.1}), Error);
  EXPECT_THROW((void)holm_adjust(std::vector{std::numeric_limits<double>::quiet_NaN()}), Error);
}

}  // namespace
}  // namespace headroom
