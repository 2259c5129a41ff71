// Calibrated schedules of `meancache` on fashion-flux: the one that ships against evenly spread steps, and the program that
// makes one.

#include "pipelines/schedules/step_calibration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "passes/step_caches/step_cache_options.hpp"
#include "pipelines/generator.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

fs::path fashion_flux() { return fs::path(kSourceDir) / "models/fashion-flux"; }

std::string digits_of(const std::vector<bool>& computed) {
  std::string digits;
  for (const bool is_computed : computed) digits += is_computed ? '1' : '0';
  return digits;
}

TEST(ShippedCalibration, IsNearerToTheWholeLoopThanStepsSpreadEvenly) {
  const auto pipeline = open_pipeline(fashion_flux().string());
  const auto backend = make_backend(DeviceKind::kCpu);
  WeightStore weights(*backend, pipeline->components());
  const std::vector<ImageRequest> images = make_image_requests(*pipeline, 0, 4, 40);
  const auto make = [&](const std::string& switches) {
    Generator generator(*pipeline, *backend, weights,
                        {.images = 4, .switches = SwitchSet::parse("lossless").with(SwitchSet::parse(switches))});
    const HostTensor latents = generator.generate(images);
    return std::pair(latents, digits_of(generator.computed_steps()));
  };
  const HostTensor whole = make("").first;
  for (const std::int64_t computed : {4, 7, 10}) {
    const std::string spread = digits_of(spread_steps(computed, 28));
    const auto [calibrated, digits] = make(fmt::format("meancache={}", computed));
    const auto [even, even_digits] = make(fmt::format("meancache={}:schedule={}", computed, spread));
    EXPECT_NE(digits, spread);
    EXPECT_EQ(even_digits, spread);
    EXPECT_EQ(std::ranges::count(digits, '1'), computed);
    EXPECT_LT(relative_l2(calibrated, whole), relative_l2(even, whole)) << computed;
  }
}

using CalibrateTest = ProgramTest;

TEST_F(CalibrateTest, KeepsSchedulesThatPlansAndImagesUse) {
  const fs::path model = folder() / "fashion";
  fs::copy(fashion_flux(), model, fs::copy_options::recursive);
  const Outcome made = headroom("calibrate " + model.string() + " --images 2 --probe-images 2 --steps 6 --json");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("wrote " + (model / "transformer/meancache.json").string()));
  const nlohmann::json summary = parse_json(made.out, "summary");
  ASSERT_EQ(summary.at("schedules").size(), 5);
  for (const auto& one : summary.at("schedules"))
    EXPECT_LE(one.at("error").get<double>(), one.at("error_spread_evenly").get<double>() + 1e-12);
  const std::string digits = summary.at("schedules")[2].at("schedule");

  const Outcome fits = headroom("plan " + model.string() + " --steps 6 --opt arena,meancache=3");
  EXPECT_THAT(fits.out, HasSubstr("the steps are those of meancache.json: " + digits));
  const Outcome other = headroom("plan " + model.string() + " --steps 7 --opt arena,meancache=3");
  EXPECT_THAT(other.out, AllOf(HasSubstr("the steps are spread evenly"), HasSubstr("not for 7 steps of euler")));
  const Outcome run =
      headroom("run " + model.string() + " --labels 7 --steps 6 --opt lossless,meancache=3 --out " + file("s.png"));
  std::string marks = digits;
  std::ranges::replace(marks, '1', '#');
  std::ranges::replace(marks, '0', '.');
  EXPECT_THAT(run.out, HasSubstr("computed 3 of 6 steps: " + marks));
  EXPECT_THAT(run.err, HasSubstr("meancache: the steps are those of meancache.json"));
}

TEST_F(CalibrateTest, RefusesWhatItCannotDo) {
  const auto refusal = [&](const std::string& arguments, int code) {
    const Outcome outcome = headroom("calibrate " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(refusal("fashion-flux --opt fbcache=0.1", 2), HasSubstr("takes no step cache"));
  EXPECT_THAT(refusal("flux-128x1+1 --random-weights 0", 2), HasSubstr("random weights"));
  EXPECT_THAT(refusal("fashion-flux --steps 129", 2),
              HasSubstr("loops with 2 to 128 calls of the denoiser; this one has 129"));
  EXPECT_THAT(refusal("fashion-flux --opt auto", 2), HasSubstr("auto"));
  EXPECT_THAT(refusal("fashion-flux --images 2 --probe-images 3", 2), HasSubstr("--images 2 are all there are to take them from"));
}

/// `auto` takes fewer calls where the user says how much may be lost, and the plan says what was refused.
TEST_F(CalibrateTest, AutoTakesACheaperLoopWithinTheLimit) {
  setenv("XDG_CACHE_HOME", file("cache").c_str(), 1);
  // Without a judge what counts is the latents: the tiny golden model has none.
  const std::string model = (fs::path(kSourceDir) / "tests/goldens/flux/tiny-guidance").string();
  const std::string plan = "plan " + model +
                           " --token-rows 2 --token-columns 2 --text-tokens 3 --json --auto-seconds 600"
                           " --opt auto,arena,flash,fuse,hoist,bf16,int8";
  const auto tried = [&](const std::string& limit) {
    const Outcome outcome = headroom(plan + limit);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return parse_json(outcome.out, "plan").at("auto");
  };
  const auto is_loop = [](const nlohmann::json& trial) {
    const std::string name = trial.at("switch");
    return name.find('=') != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(tried(""), is_loop), 0) << "nobody said what may be lost";
  const nlohmann::json strict = tried(" --max-request-error 0.00000001");
  int over = 0;
  for (const nlohmann::json& trial : strict) {
    if (!is_loop(trial) || trial.value("error", 0.0) <= 1e-8) continue;
    ++over;
    EXPECT_FALSE(trial.at("kept")) << trial;
    EXPECT_EQ(trial.at("why"), "the relative L2 of its latents is over 1e-08");
  }
  EXPECT_GE(over, 6);  // two samplers in three numbers of steps
}

}  // namespace
}  // namespace headroom
