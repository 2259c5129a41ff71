#include "measure/quality/flip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

struct FlipCase {
  std::string kind;
  std::int64_t height, width;
  double pixels_per_degree;
  double expected;
};

/// The pictures of tests/goldens/make_flip.py, planar in [-1, 1].
std::pair<std::vector<float>, std::vector<float>> pictures_of(const FlipCase& one) {
  std::vector<float> reference, other;
  const auto add = [](std::vector<float>& picture, std::int64_t level) {
    picture.push_back(static_cast<float>(std::clamp<std::int64_t>(level, 0, 255)) / 127.5F - 1);
  };
  for (std::int64_t channel = 0; channel < 3; ++channel)
    for (std::int64_t y = 0; y < one.height; ++y)
      for (std::int64_t x = 0; x < one.width; ++x) {
        const std::int64_t c = one.kind == "grey" ? 0 : channel;
        const auto disc = [&](std::int64_t shift) {
          const std::int64_t dx = x - one.width / 2 - shift, dy = y - one.height / 2;
          return dx * dx + dy * dy < (one.height / 3) * (one.height / 3) ? 200 - 60 * c : 40 + 30 * c;
        };
        const std::int64_t texture = (7 * x + 13 * y + 50 * c + 5 * ((x * y) % 17)) % 256;
        const bool is_texture = one.kind == "texture" || one.kind == "equal";
        add(reference, is_texture ? texture : disc(0));
        add(other, one.kind == "texture" ? 255 - texture
                   : one.kind == "equal" ? texture
                   : one.kind == "moved" ? disc(2)
                                         : disc(0) + (x * x + 3 * y + 11 * c) % 23 - 11);
      }
  return {reference, other};
}

double flip_of(const FlipCase& one) {
  const auto [reference, other] = pictures_of(one);
  return flip(reference, other, 3, one.height, one.width, one.pixels_per_degree);
}

// Expected values of flip-evaluator 1.7, the authors' implementation, which computes in float.
TEST(Flip, IsThatOfItsAuthors) {
  for (const FlipCase& one : std::vector<FlipCase>{{"noise", 48, 64, 67.0206, 0.0592460},
                                                   {"moved", 48, 64, 67.0206, 0.1037046},
                                                   {"texture", 33, 21, 67.0206, 0.8830948},
                                                   {"grey", 48, 64, 67.0206, 0.0488218},
                                                   {"moved", 48, 64, 30, 0.0809458}})
    EXPECT_NEAR(flip_of(one), one.expected, 2e-4 * one.expected) << one.kind << ", " << one.pixels_per_degree;
}

TEST(Flip, IsZeroOfEqualPicturesAndTheSameBothWays) {
  EXPECT_EQ(flip_of({"equal", 33, 21, kFlipPixelsPerDegree, 0}), 0);
  const auto [reference, other] = pictures_of({"moved", 48, 64, kFlipPixelsPerDegree, 0});
  EXPECT_DOUBLE_EQ(flip(reference, other, 3, 48, 64), flip(other, reference, 3, 48, 64));
}

TEST(Flip, OfOneChannelIsThatOfGreyInThree) {
  const auto [reference, other] = pictures_of({"grey", 48, 64, kFlipPixelsPerDegree, 0});
  const std::size_t plane = 48 * 64;
  EXPECT_DOUBLE_EQ(flip(std::span(reference).first(plane), std::span(other).first(plane), 1, 48, 64),
                   flip(reference, other, 3, 48, 64));
}

TEST(Flip, RefusesWhatIsNoPairOfPictures) {
  const std::vector<float> one(12, 0.5F), less(9, 0.5F);
  std::vector<float> broken = one;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)flip(one, less, 3, 2, 2), Error);
  EXPECT_THROW((void)flip(one, one, 4, 3, 1), Error);
  EXPECT_THROW((void)flip(one, broken, 3, 2, 2), Error);
  EXPECT_THROW((void)flip(broken, one, 3, 2, 2), Error);
  EXPECT_THROW((void)flip(one, one, 3, 2, 2, 0), Error);
}

}  // namespace
}  // namespace headroom
