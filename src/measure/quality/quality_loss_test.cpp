#include "measure/quality/quality_loss.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "measure/quality/quality.hpp"

namespace headroom {
namespace {

using testing::SizeIs;
using Records = std::vector<QualityRecord>;

QualityRecord record(std::string metric, std::optional<double> value, std::optional<Interval> interval = {},
                     std::string against = "the reference") {
  return {.metric = std::move(metric), .against = std::move(against), .value = value, .interval = interval, .note = {}};
}

MeasuredLoss only_loss(const Records& own, const Records& baseline) {
  const std::vector<MeasuredLoss> losses = measured_losses(own, baseline);
  EXPECT_THAT(losses, SizeIs(1));
  return losses.at(0);
}

TEST(MeasuredLosses, HaveTheScaleOfTheirMeasure) {
  const auto value = [](const QualityRecord& own, const QualityRecord& base) { return only_loss({own}, {base}).value; };
  EXPECT_NEAR(value(record("accuracy", 0.96), record("accuracy", 0.98)), 0.02, 1e-12);
  EXPECT_NEAR(value(record("frechet_distance", 0.3), record("frechet_distance", 0.2)), 0.5, 1e-12);
  EXPECT_NEAR(value(record("clip_score", 30), record("clip_score", 32)), 0.0625, 1e-12);
  EXPECT_NEAR(value(record("flicker", 0.5), record("flicker", 0.4)), 0.1, 1e-12);
  EXPECT_NEAR(value(record("relative_l2", 0.05), record("relative_l2", 0.02)), 0.03, 1e-12);
  EXPECT_NEAR(value(record("psnr_db", 20), record("psnr_db", 40)), 0.09, 1e-12) << "of two against one teacher";
  EXPECT_NEAR(only_loss({record("psnr_db", 40, {}, "baseline, same seeds")}, {}).value, 0.01, 1e-12);
  EXPECT_NEAR(only_loss({record("perceptual", 0.2, {}, "baseline, same seeds")}, {}).value, 0.2, 1e-12);
  EXPECT_NEAR(only_loss({record("relative_l2", 0.05)}, {}).value, 0.05, 1e-12) << "all of it may be lost";
}

TEST(MeasuredLosses, LeaveOutWhatSaysNothing) {
  EXPECT_THAT(measured_losses(Records{record("accuracy", 0.9)}, {}), SizeIs(0)) << "against what?";
  EXPECT_THAT(measured_losses(Records{record("accuracy", 0.9)}, Records{record("accuracy", 0.9, {}, "others")}),
              SizeIs(0));
  EXPECT_THAT(measured_losses(Records{record("beauty", 0.9)}, Records{record("beauty", 0.1)}), SizeIs(0))
      << "nobody knows which end is good";
}

TEST(MeasuredLosses, ArePairedWhereTheRecordsAre) {
  const Records base = {record("accuracy", 0.98, Interval{0.96, 0.99})};
  const MeasuredLoss apart = only_loss({record("accuracy", 0.98, Interval{0.96, 0.99})}, base);
  EXPECT_NEAR(apart.at_worst(), std::hypot(0.02, 0.01), 1e-12);
  EXPECT_NEAR(apart.at_best(), -apart.at_worst(), 1e-12);
  const MeasuredLoss paired = only_loss(
      {record("accuracy", 0.98, Interval{0.96, 0.99}), record("accuracy_difference", 0.001, Interval{-0.002, 0.004})},
      base);
  EXPECT_NEAR(paired.at_worst(), 0.002, 1e-12);
  EXPECT_NEAR(paired.at_best(), -0.004, 1e-12);
}

QualityLoss assessed(const Records& own, const Records& base, OutputKind kind, double most = 0.01) {
  return *assess_quality(measured_losses(own, base), kind, most);
}

TEST(AssessQuality, TakesTheWorstMeasure) {
  const Records base = {record("accuracy", 0.97), record("frechet_distance", 0.2)};
  const Records own = {record("accuracy", 0.98), record("frechet_distance", 0.3)};
  const QualityLoss loss = assessed(own, base, OutputKind::kRounded);
  EXPECT_EQ(loss.verdict, LossVerdict::kBeyond);
  EXPECT_NEAR(loss.at_worst, 0.5, 1e-12);
  EXPECT_EQ(loss.worst->metric->name, "frechet_distance");
}

TEST(AssessQuality, IsNotResolvedWhereTheLimitIsWithinTheInterval) {
  const Records base = {record("accuracy", 0.98, Interval{0.96, 0.99}, "labels of 500 images")};
  const Records own = {record("accuracy", 0.979, Interval{0.96, 0.99}, "labels of 500 images")};
  const QualityLoss loss = assessed(own, base, OutputKind::kRounded);
  EXPECT_EQ(loss.verdict, LossVerdict::kUnresolved);
  EXPECT_EQ(images_to_resolve(*loss.worst, 0.01), 2900) << "500 * (0.0215 / 0.009)^2, in two digits";
  EXPECT_EQ(assessed(own, base, OutputKind::kRounded, 0.05).verdict, LossVerdict::kWithin);
  EXPECT_EQ(
      assessed({record("accuracy", 0.9, Interval{0.87, 0.92}, "labels of 500 images")}, base, OutputKind::kRounded)
          .verdict,
      LossVerdict::kBeyond);
}

TEST(AssessQuality, OfExactSwitchesIsNoLossUnlessAMeasureSaysSo) {
  const Records base = {record("accuracy", 0.98, Interval{0.96, 0.99})};
  EXPECT_EQ(assess_quality({}, OutputKind::kSame, 0.01)->verdict, LossVerdict::kWithin);
  EXPECT_EQ(assessed({record("accuracy", 0.97, Interval{0.95, 0.98})}, base, OutputKind::kSame).at_worst, 0);
  EXPECT_EQ(assessed({record("accuracy", 0.5, Interval{0.4, 0.6})}, base, OutputKind::kSame).verdict,
            LossVerdict::kBeyond);
  EXPECT_FALSE(assess_quality({}, OutputKind::kRounded, 0.01)) << "not measured";
}

TEST(AssessQuality, CountsNearnessOfAnotherLoopOnlyWhereNothingElseIsKnown) {
  const QualityRecord far = record("psnr_db", 20, {}, "baseline, same seeds");
  const Records base = {record("accuracy", 0.97)}, own = {far, record("accuracy", 0.97)};
  EXPECT_EQ(assessed(own, base, OutputKind::kOtherLoop).verdict, LossVerdict::kWithin);
  EXPECT_EQ(assessed(own, base, OutputKind::kRounded).verdict, LossVerdict::kBeyond);
  EXPECT_EQ(assessed({far}, {}, OutputKind::kOtherLoop).verdict, LossVerdict::kBeyond);
}

TEST(AssessQuality, NeverAllowsWhatIsNotFinite) {
  const Records own = {record("relative_l2", std::numeric_limits<double>::quiet_NaN()), record("accuracy", 0.98)};
  EXPECT_EQ(assessed(own, {}, OutputKind::kRounded).verdict, LossVerdict::kBeyond);
}

TEST(AssessQuality, IsNotResolvedByAFewImages) {
  const auto of_images = [](int images, double value) {
    const std::string against = "labels of " + std::to_string(images) + " images";
    return Records{record("accuracy", value, {}, against),
                   record("accuracy_difference", 0, Interval{-0.004, 0.004}, "baseline")};
  };
  EXPECT_EQ(assessed(of_images(50, 0.98), of_images(50, 0.98), OutputKind::kRounded).verdict, LossVerdict::kWithin);
  const QualityLoss few = assessed(of_images(49, 0.98), of_images(49, 0.98), OutputKind::kRounded);
  EXPECT_EQ(few.verdict, LossVerdict::kUnresolved);
  EXPECT_EQ(images_to_resolve(*few.worst, 0.01), 50);
  EXPECT_EQ(too_few_images(few.worst->own), "49 images say little of the accuracy, judge at least 50");
  EXPECT_EQ(assessed(of_images(49, 0.98), of_images(49, 0.98), OutputKind::kSame).at_worst, 0) << "exact switches";
  EXPECT_EQ(too_few_images(record("frechet_distance", 1, {}, "features of the test set, 1 images")),
            "1 image says little of the Fréchet distance, judge at least 50");
  EXPECT_EQ(too_few_images(record("psnr_db", 40, {}, "baseline, 4 images")), "") << "of each image and its own";
  EXPECT_EQ(too_few_images(record("accuracy", 0.9)), "") << "their number is not known";
}

TEST(LossText, HasTheUnitOfItsMetric) {
  const auto text = [](std::string_view metric) { return loss_text(*find_metric(metric), {-0.018, 0.05}); };
  EXPECT_EQ(text("accuracy"), "-1.8 to 5 percentage points of accuracy lost");
  EXPECT_EQ(text("frechet_distance"), "Fréchet distance grown by -1.8% to 5% of the baseline's");
  EXPECT_EQ(text("clip_score"), "-1.8% to 5% of the baseline's CLIP score lost");
  EXPECT_EQ(text("psnr_db"), "RMS error grown by -1.8% to 5% of the range of values");
  EXPECT_EQ(text("flip"), "FLIP grown by -1.8 to 5 percentage points");
  EXPECT_EQ(text("flicker"), "flicker grown by -1.8 to 5 percentage points");
  EXPECT_EQ(loss_limit_text(*find_metric("accuracy"), 0.01), "at most 1 percentage point of accuracy lost");
  EXPECT_EQ(loss_limit_text(*find_metric("frechet_distance"), 0.05),
            "Fréchet distance grown by at most 5% of the baseline's");
}

TEST(OutputKind, IsThatOfTheSwitchesThatApplied) {
  const auto kind = [](std::vector<std::string> applied) {
    Configuration configuration;
    configuration.applied = std::move(applied);
    return output_kind_of(configuration);
  };
  EXPECT_EQ(kind({}), OutputKind::kSame);
  EXPECT_EQ(kind({"arena", "lossless", "graph"}), OutputKind::kSame);
  EXPECT_EQ(kind({"arena", "fp8=fast"}), OutputKind::kRounded);
  EXPECT_EQ(kind({"steps=4", "fp8"}), OutputKind::kOtherLoop);
  EXPECT_EQ(kind({"auto"}), OutputKind::kRounded);
}

TEST(AccuracyDifference, HasAWidthWhereNoImageChangedSides) {
  const std::vector<bool> right(100, true);
  const Estimate same = accuracy_difference(right, right);
  EXPECT_EQ(same.value, 0);
  EXPECT_NEAR(same.interval->high, 1.96 / 102, 1e-4);
  std::vector<bool> other = right;
  for (int i = 0; i < 10; ++i) other[static_cast<std::size_t>(i)] = false;
  EXPECT_NEAR(accuracy_difference(right, other).value, -0.1, 1e-12);
  EXPECT_NEAR(accuracy_difference(right, other).interval->low, -0.159, 1e-3);
  EXPECT_LT(accuracy_difference(right, other).interval->high, -0.03);
}

TEST(EqualInTime, WantsAnIntervalThatHoldsOne) {
  EXPECT_TRUE(are_equal_in_time(Estimate{1.01, Interval{0.99, 1.03}}));
  EXPECT_FALSE(are_equal_in_time(Estimate{1.05, Interval{1.02, 1.08}}));
  EXPECT_FALSE(are_equal_in_time(Estimate{1, {}}));
  EXPECT_FALSE(are_equal_in_time({}));
}

}  // namespace
}  // namespace headroom
