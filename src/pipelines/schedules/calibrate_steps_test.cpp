#include "pipelines/schedules/calibrate_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "pipelines/generator.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

class CalibrateStepsTest : public testing::Test {
 protected:
  static RequestOptions options(std::int64_t steps, std::string_view switches = "lossless") {
    return {.images = 2,
            .token_rows = 2,
            .token_columns = 3,
            .text_tokens = 3,
            .steps = steps,
            .switches = SwitchSet::parse(switches)};
  }
  HostTensor make(const RequestOptions& options, std::uint64_t seed) {
    Generator generator(*pipeline_, *backend_, weights_, options);
    return generator.generate(make_image_requests(*pipeline_, 0, options.images, seed));
  }

  static std::filesystem::path goldens() { return source_dir(kSourceDir) / "tests/goldens"; }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline((goldens() / "flux/tiny-guidance").string());
  WeightStore weights_{*backend_, pipeline_->components()};
};

/// The sample is the sum of the noise and the velocities with the weights of the sampler's tables. This verifies
/// both, for any prediction of the denoiser.
TEST_F(CalibrateStepsTest, TheSampleIsMadeOfTheVelocitiesThatAreRecorded) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"flux/tiny-guidance", ""},         {"flux/tiny-guidance", "lossless,sampler=unipc"},
      {"flux/tiny-guidance", "lossless"}, {"flux/tiny-guidance", "lossless,sampler=heun"},
      {"pipelines/sd-1.5", "lossless"},   {"pipelines/sd-2.1", "lossless,sampler=dpm++2m"}};
  for (const auto& [model, switches] : cases) {
    pipeline_ = open_pipeline((goldens() / model).string());
    WeightStore weights(*backend_, pipeline_->components());
    RequestOptions recorded = options(4, switches);
    recorded.records_velocities = true;
    Generator generator(*pipeline_, *backend_, weights, recorded);
    std::vector<ImageRequest> images = make_image_requests(*pipeline_, 0, 2, 7);
    const Shape of_one(generator.latents_shape().dims().subspan(1));
    for (ImageRequest& image : images) image.noise = HostTensor(DType::kF32, of_one);  // zeros
    const HostTensor sample = generator.generate(images);
    const HostTensor velocities = generator.session().output(std::string(kVelocities));
    const std::vector<double> weight = pipeline_->sampler_tables(generator.request()).answers_in_sample();
    ASSERT_EQ(velocities.shape(), (Shape{std::ssize(weight), sample.numel()})) << model << ' ' << switches;
    HostTensor sum(DType::kF32, sample.shape());
    for (std::int64_t i = 0; i < sample.numel(); ++i) {
      double of_all = 0;
      for (std::int64_t call = 0; call < std::ssize(weight); ++call)
        of_all += weight[static_cast<std::size_t>(call)] * velocities.at(call * sample.numel() + i);
      sum.set(i, of_all);
    }
    EXPECT_LT(relative_l2(sum, sample), 1e-5) << model << ' ' << switches;
  }
}

TEST_F(CalibrateStepsTest, MeasuresWhatItChooses) {
  constexpr std::int64_t kSteps = 7;
  std::map<std::string, std::int64_t, std::less<>> done, totals;
  const auto count = [&](std::string_view phase, std::int64_t at, std::int64_t total) {
    EXPECT_EQ(at, ++done.try_emplace(std::string(phase), -1).first->second) << "a phase begins with 0";
    totals[std::string(phase)] = total;
  };
  const MeasuredSchedules measured = calibrate_steps(*pipeline_, *backend_, weights_, options(kSteps),
                                                     {.images = 3, .probed_images = 3, .seed = 5}, count);
  EXPECT_EQ(done, totals);
  EXPECT_EQ(done.size(), 3);
  EXPECT_EQ(done.at("whole loops"), 4 * kSteps) << "two generations, and what is made again of them";
  EXPECT_EQ(done.at("one step skipped"), 2 * (kSteps - 1) * kSteps);
  ASSERT_EQ(std::ssize(measured.best), kSteps - 1);
  const auto of_four = [&](std::string_view switches) {  // the images of both generations
    RequestOptions all = options(kSteps, switches);
    all.images = 4;
    return make(all, 5);
  };
  const HostTensor whole = of_four("lossless");
  int better = 0;
  for (std::size_t i = 0; i < measured.best.size(); ++i) {
    const StepSchedule& best = measured.best[i];
    const auto error_of = [&](const std::string& digits) {
      return relative_l2(of_four(fmt::format("lossless,meancache={}:schedule={}", i + 1, digits)), whole);
    };
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(best.digits, '1')), i + 1);
    EXPECT_NEAR(best.error, error_of(best.digits), 1e-3 * best.error) << best.digits;
    EXPECT_NEAR(measured.spread_errors[i], error_of(spread_schedule(i + 1, kSteps)), 1e-3 * measured.spread_errors[i]);
    EXPECT_LE(best.error, measured.spread_errors[i]);
    better += best.error < 0.9 * measured.spread_errors[i] ? 1 : 0;
  }
  EXPECT_GE(better, 3);
  EXPECT_GT(measured.best.front().error, measured.best.back().error);
}

TEST_F(CalibrateStepsTest, WhatCannotBeCalibratedIsRefused) {
  const auto refusal = [&](const RequestOptions& options) {
    return headroom::error_of(
        [&] { static_cast<void>(calibrate_steps(*pipeline_, *backend_, weights_, options, {})); });
  };
  EXPECT_THAT(refusal(options(1)), HasSubstr("loops with 2 to 128 calls of the denoiser; this one has 1"));
  EXPECT_THAT(refusal(options(129)), HasSubstr("has 129"));
}

}  // namespace
}  // namespace headroom
