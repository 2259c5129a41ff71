#include "measure/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// Of images of which the first few are wrong; each adds so much to the error of a distance, in turn more and less.
Judgement judgement(std::size_t wrong, double distance, double influence = 0) {
  constexpr std::size_t kImages = 100;
  Judgement judged{.accuracy = {}, .frechet = {.value = distance, .influence = std::vector<double>(kImages)}};
  for (std::size_t i = 0; i < kImages; ++i) {
    judged.is_right.push_back(i >= wrong);
    judged.frechet.influence[i] = i % 2 == 0 ? influence : -influence;
  }
  return judged;
}

TEST(QualityLoss, IsTheLargerOfLabelsAndDistance) {
  const QualityLoss distance = quality_loss(judgement(3, 0.2), judgement(3, 0.25));
  EXPECT_NEAR(distance.value, 0.25, 1e-9);
  EXPECT_THAT(distance.what, HasSubstr("Frechet"));
  const QualityLoss labels = quality_loss(judgement(3, 0.2), judgement(13, 0.21));
  EXPECT_GT(labels.value, 0.1);
  EXPECT_THAT(labels.what, HasSubstr("label is no longer seen"));
}

TEST(QualityLoss, IsAtTheUpperEndOfItsInterval) {
  // Of 100 images 10 are lost: 0.1, and 1.96 standard errors of 0.03 and a little more.
  EXPECT_NEAR(quality_loss(judgement(0, 1), judgement(10, 1)).value, 0.159, 1e-3);
  // What images add to the error of both distances cancels, and of one does not.
  EXPECT_NEAR(quality_loss(judgement(0, 1, 0.5), judgement(0, 1.2, 0.5)).value, 0.2, 1e-9);
  EXPECT_NEAR(quality_loss(judgement(0, 1, 0.5), judgement(0, 1.2)).value, 0.2 + 1.96 * 0.05, 1e-3);
}

TEST(QualityLoss, OfBetterImagesIsAGain) {
  // No label is lost, and the distance is a fourth less.
  EXPECT_EQ(quality_loss(judgement(0, 0.2), judgement(0, 0.15)).value, 0);
  EXPECT_LT(quality_loss(judgement(50, 0.2), judgement(0, 0.15)).value, -0.2);
}

TEST(QualityLoss, IsOfTheSameImages) {
  Judgement fewer = judgement(0, 1);
  fewer.is_right.pop_back();
  fewer.frechet.influence.pop_back();
  EXPECT_THAT(headroom::error_of([&] { static_cast<void>(quality_loss(judgement(0, 1), fewer)); }),
              HasSubstr("99 images cannot be paired with 100"));
}

}  // namespace
}  // namespace headroom
