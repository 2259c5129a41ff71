// Calibrated schedules of `meancache` on fashion-flux: the program that makes one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

fs::path fashion_flux() { return fs::path(HEADROOM_SOURCE_DIR) / "models/fashion-flux"; }

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
  EXPECT_THAT(refusal("fashion-flux --opt fbcache=0.1", 2), HasSubstr("without a step cache"));
  EXPECT_THAT(refusal("flux-128x1+1 --random-weights 0", 2), HasSubstr("random weights"));
  EXPECT_THAT(refusal("fashion-flux --steps 129", 2), HasSubstr("of 2 to 128 calls of the denoiser, not of 129"));
  EXPECT_THAT(refusal("fashion-flux --opt auto", 2), HasSubstr("auto"));
}

}  // namespace
}  // namespace headroom
