#include "measure/quality/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "measure/quality/quality_loss.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A judgement in which the first images are wrong. Each image changes the error of the distance by the same amount,
/// with alternating sign.
Judgement judgement(std::size_t wrong, double distance, double influence = 0) {
  constexpr std::size_t kImages = 100;
  Judgement judged{.accuracy = {}, .frechet = {.value = distance, .influence = std::vector<double>(kImages)}};
  for (std::size_t i = 0; i < kImages; ++i) {
    judged.is_right.push_back(i >= wrong);
    judged.frechet.influence[i] = i % 2 == 0 ? influence : -influence;
  }
  return judged;
}

/// The worst recorded loss, at the end of its interval that is unfavourable to `changed`.
QualityLoss loss_of(const Judgement& base, const Judgement& changed, double most = 0.05) {
  return *assess_quality(measured_losses(quality_records(changed, &base), quality_records(base, nullptr)),
                         OutputKind::kOtherLoop, most);
}

TEST(QualityRecords, OfAPairLetWhatBothHaveInCommonCancel) {
  // 10 of 100 images are lost: 0.1, plus 1.96 standard errors of 0.03 and a little more.
  EXPECT_NEAR(loss_of(judgement(0, 1), judgement(10, 1)).at_worst, 0.159, 1e-3);
  EXPECT_EQ(loss_of(judgement(0, 1), judgement(10, 1)).worst->metric->name, "accuracy");
  // Contributions of images to the error of both distances cancel; those to one of them do not.
  EXPECT_NEAR(loss_of(judgement(0, 1, 0.5), judgement(0, 1.2, 0.5)).at_worst, 0.2, 1e-9);
  EXPECT_NEAR(loss_of(judgement(0, 1, 0.5), judgement(0, 1.2)).at_worst, 0.2 + 1.96 * 0.05, 1e-3);
  EXPECT_EQ(loss_of(judgement(0, 1), judgement(0, 1.2)).worst->metric->name, "frechet_distance");
}

TEST(QualityRecords, OfBetterImagesAreAGain) {
  EXPECT_LT(loss_of(judgement(50, 0.2), judgement(0, 0.15)).at_worst, -0.2);
  // No label of 100 images is lost, but some may be lost of 1,000.
  EXPECT_NEAR(loss_of(judgement(0, 0.2), judgement(0, 0.15)).at_worst, 0.019, 1e-3);
}

TEST(QualityRecords, AreOfTheSameImages) {
  Judgement fewer = judgement(0, 1);
  fewer.is_right.pop_back();
  fewer.frechet.influence.pop_back();
  const Judgement base = judgement(0, 1);
  EXPECT_THAT(headroom::error_of([&] { static_cast<void>(quality_records(fewer, &base)); }),
              HasSubstr("99 images cannot be paired with 100"));
}

}  // namespace
}  // namespace headroom
