// Tests the quality records of a ladder: for any folder that makes images, with the model's own prompts or given
// ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "measure/protocol/ladder.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

class ImageLadder : public testing::Test {
 protected:
  [[nodiscard]] static LadderOptions options(std::int64_t quality_images) {
    LadderOptions options;
    options.request.images = 2;
    options.request.steps = 2;
    options.warmup_steps = 1;
    options.min_trials = 3;
    options.quality_images = quality_images;
    return options;
  }
  /// The metrics of a rung, and the reference text of the first.
  [[nodiscard]] static std::vector<std::string> metrics_of(const Rung& rung) {
    std::vector<std::string> metrics;
    for (const QualityRecord& record : rung.result.quality) metrics.push_back(record.metric);
    return metrics;
  }

  std::unique_ptr<Pipeline> pipeline_ = open_pipeline(std::string(kSourceDir) + "/tests/goldens/pipelines/sd-1.5");
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
};

TEST_F(ImageLadder, ComparesAsManyImagesAsAreAskedForWithoutAClassifier) {
  Ladder ladder = make_ladder(SwitchSet::parse("steps=1,fp8"));
  run_rounds_here(*pipeline_, *backend_, options(3), 0)(ladder, 0, std::vector<std::size_t>{1, 2});
  EXPECT_TRUE(ladder.rungs.at(0).result.quality.empty()) << "the baseline is what the others are held against";
  const Rung& steps = *std::ranges::find(ladder.rungs, "steps=1", &Rung::name);
  ASSERT_THAT(metrics_of(steps), testing::ElementsAre("psnr_db", "flip"));
  for (const QualityRecord& record : steps.result.quality) {
    EXPECT_EQ(record.against, "baseline, 4 images, same seeds") << "whole batches of 2";
    ASSERT_TRUE(record.value && record.interval) << record.metric;
    EXPECT_LT(record.interval->low, *record.value);
  }
  const Rung& declined = *std::ranges::find(ladder.rungs, "fp8", &Rung::name);
  ASSERT_EQ(declined.result.same_as, "baseline");
  ASSERT_THAT(metrics_of(declined), testing::ElementsAre("psnr_db", "flip"));
  EXPECT_EQ(declined.result.quality[0].note, "identical");
  EXPECT_EQ(declined.result.quality[1].value, 0);
}

TEST_F(ImageLadder, ComparesTheFirstBatchUnlessMoreAreAskedFor) {
  Ladder ladder = make_ladder(SwitchSet::parse("steps=1"));
  run_rounds_here(*pipeline_, *backend_, options(0), 0)(ladder, 0, std::vector<std::size_t>{1});
  ASSERT_THAT(metrics_of(ladder.rungs.at(1)), testing::ElementsAre("psnr_db", "flip"));
  EXPECT_EQ(ladder.rungs.at(1).result.quality[0].against, "baseline, 2 images, same seeds");
}

TEST_F(ImageLadder, MakesTheBaselinesImagesAgainWhereItGoesOn) {
  Ladder whole = make_ladder(SwitchSet::parse("steps=1"));
  run_rounds_here(*pipeline_, *backend_, options(3), 0)(whole, 0, std::vector<std::size_t>{1});
  Ladder ladder = make_ladder(SwitchSet::parse("steps=1"));
  run_rounds_here(*pipeline_, *backend_, options(3), 0)(ladder, 0, {});
  run_rounds_here(*pipeline_, *backend_, options(3), 1)(ladder, 0, std::vector<std::size_t>{1});
  EXPECT_EQ(ladder.rungs.at(1).result.quality, whole.rungs.at(1).result.quality);
  EXPECT_TRUE(ladder.rungs.at(0).result.quality.empty());
}

TEST_F(ImageLadder, ShowsThePromptsThatAreGiven) {
  LadderOptions prompted = options(2);
  prompted.prompts = {"a red fox"};
  std::vector<HostTensor> images;
  const LadderObserver keep{.on_pixels = [&](const Rung&, const HostTensor& pixels) { images.push_back(pixels); }};
  Ladder own = make_ladder({}), given = make_ladder({});
  run_rounds_here(*pipeline_, *backend_, options(2), 0, keep)(own, 0, {});
  run_rounds_here(*pipeline_, *backend_, prompted, 0, keep)(given, 0, {});
  ASSERT_EQ(images.size(), 2U);
  EXPECT_GT(relative_l2(images[0], images[1]), 1e-3);
}

TEST_F(ImageLadder, RefusesQualityWhereThereAreNoImages) {
  const std::unique_ptr<Pipeline> alone =
      open_pipeline(std::string(kSourceDir) + "/tests/goldens/pipelines/sd-1.5/unet");
  EXPECT_THAT(error_of([&] { (void)run_rounds_here(*alone, *backend_, options(3), 0); }),
              HasSubstr("--quality judges images, and there are none"));
  LadderOptions prompted = options(0);
  prompted.prompts = {"a red fox"};
  EXPECT_THAT(error_of([&] { (void)run_rounds_here(*alone, *backend_, prompted, 0); }), HasSubstr("reads no text"));
  const std::unique_ptr<Pipeline> random =
      open_pipeline(std::string(kSourceDir) + "/tests/goldens/pipelines/sd-1.5", {.random_seed = 0});
  EXPECT_THAT(error_of([&] { (void)run_rounds_here(*random, *backend_, options(3), 0); }), HasSubstr("are random"));
}

}  // namespace
}  // namespace headroom
