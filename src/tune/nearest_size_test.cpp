#include "tune/nearest_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace headroom::tune {
namespace {

using Size = std::vector<std::int64_t>;

TEST(TunedSizes, AreAsFarApartAsTheirSizesAreByFactors) {
  EXPECT_EQ(distance(Size{1, 64, 64}, Size{1, 64, 64}), 0);
  EXPECT_DOUBLE_EQ(distance(Size{1, 64, 64}, Size{1, 32, 64}), std::log(2));
  EXPECT_DOUBLE_EQ(distance(Size{1, 64, 64}, Size{2, 128, 32}), 3 * std::log(2))
      << "factors do not make up for one another";
  EXPECT_DOUBLE_EQ(distance(Size{48}, Size{64}), distance(Size{64}, Size{48}));
  EXPECT_TRUE(std::isinf(distance(Size{64}, Size{64, 1})));
}

TEST(TunedSizes, AreOrderedByHowNearTheyAre) {
  const std::vector<TunedSize> family = {
      {"far", {16}}, {"larger", {96}}, {"of another kind", {48, 48}}, {"smaller", {24}}, {"near", {50}}};
  const std::vector<TunedSize> expected = {{"near", {50}}, {"smaller", {24}}, {"larger", {96}}, {"far", {16}}};
  EXPECT_EQ(nearest_first(family, Size{48}), expected) << "24 and 96 are equally near";
}

TEST(TunedSizes, OfAnySizeButNothingAreFar) {
  const std::vector<TunedSize> family = {{"none", {0}}, {"less than none", {-4}}, {"one", {1}}};
  EXPECT_EQ(nearest_first(family, Size{48}), (std::vector<TunedSize>{{"one", {1}}}));
}

TEST(TunedSizes, AreNamedByTheirSize) {
  EXPECT_EQ(taken_over_from(Size{1, 64, 48}), ", taken over from size 1x64x48");
  EXPECT_EQ(taken_over_from(Size{4096}), ", taken over from size 4096");
}

}  // namespace
}  // namespace headroom::tune
