#include "pipelines/schedules/flow_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(FlowSchedule, ShiftIsLinearInTheNumberOfTokens) {
  const FlowSchedule schedule;
  EXPECT_DOUBLE_EQ(schedule.dynamic_shift(256, 28), 0.5);
  EXPECT_DOUBLE_EQ(schedule.dynamic_shift(4096, 28), 1.15);
  EXPECT_DOUBLE_EQ(schedule.dynamic_shift(2176, 28), 0.825);  // the midpoint
}

TEST(FlowSchedule, SigmasFallFromOneToZero) {
  const std::vector<double> sigmas = FlowSchedule{}.sigmas(4, 256);
  ASSERT_EQ(sigmas.size(), 5U);
  EXPECT_DOUBLE_EQ(sigmas[0], 1.0);
  // e^0.5 / (e^0.5 + 1/sigma - 1) at 3/4, 1/2, 1/4, by hand
  EXPECT_NEAR(sigmas[1], 0.831824, 1e-6);
  EXPECT_NEAR(sigmas[2], 0.622459, 1e-6);
  EXPECT_NEAR(sigmas[3], 0.354661, 1e-6);
  EXPECT_DOUBLE_EQ(sigmas[4], 0.0);
}

TEST(FlowSchedule, AFixedShiftIsTheSameForAllSizes) {
  FlowSchedule schedule{.use_dynamic_shifting = false, .shift = 3};
  for (const std::int64_t tokens : {16, 4096}) EXPECT_DOUBLE_EQ(schedule.sigmas(2, tokens)[1], 0.75);  // 3 / (3 + 1)
  schedule.shift = 1;
  EXPECT_DOUBLE_EQ(schedule.sigmas(4, 256)[1], 0.75);  // evenly
}

// Shifts that overflow, underflow or turn levels around leave no schedule.
TEST(FlowSchedule, AShiftThatMakesNoLevelsIsRefused) {
  const auto error_of = [](const FlowSchedule& schedule, std::int64_t steps) -> std::string {
    try {
      (void)schedule.schedule(steps, 4);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (const std::int64_t steps : {1, 2, 30}) {
    EXPECT_THAT(error_of({.base_shift = 2147483647, .max_shift = 1.15}, steps), testing::HasSubstr("noise level"));
    EXPECT_THAT(error_of({.base_shift = -2147483647, .max_shift = 1.15}, steps), testing::HasSubstr("noise level"));
    EXPECT_THAT(error_of({.base_shift = 1e300, .max_shift = 1.15}, steps), testing::HasSubstr("noise level"));
  }
  EXPECT_THAT(error_of({.base_shift = -3, .max_shift = -3, .is_linear = true}, 2), testing::HasSubstr("a shift of -3"));
  EXPECT_EQ(error_of({.base_shift = -3, .max_shift = -3}, 30), "");
}

// Qwen-Image's schedule, 50 steps with a shift of 0.83432: levels as printed by diffusers.
TEST(FlowSchedule, ATerminalStretchesTheLevels) {
  FlowSchedule schedule{.base_shift = 0.83432, .max_shift = 0.83432, .shift_terminal = 0.02};
  const std::vector<double> sigmas = schedule.sigmas(50, 256);
  EXPECT_NEAR(sigmas[1], 0.99099, 5e-6);
  EXPECT_NEAR(sigmas[48], 0.06378, 5e-6);
  EXPECT_NEAR(sigmas[49], 0.02, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.sigmas(1, 256)[0], 1.0);
}

// As printed by diffusers for a shift of 3: both ends are shifted twice.
TEST(FlowSchedule, ASchedulersOwnLevelsAreShiftedAtBothEnds) {
  const FlowSchedule schedule{.spacing = FlowSpacing::kOwn, .use_dynamic_shifting = false, .shift = 3};
  const double least = 0.003 / 1.002;  // 3 / (3 + 1000 - 1)
  EXPECT_NEAR(schedule.sigmas(4, 256)[3], 3 * least / (1 + 2 * least), 1e-12);
  EXPECT_DOUBLE_EQ(schedule.sigmas(4, 256)[0], 1);
}

TEST(FlowSchedule, StepsGoFromLevelToLevelAndTellTheTimestep) {
  const NoiseSchedule schedule = FlowSchedule{}.schedule(2, 256);
  ASSERT_EQ(schedule.steps.size(), 2U);
  EXPECT_EQ(schedule.prediction, Prediction::kFlow);
  EXPECT_EQ(schedule.steps[0].from, (NoiseLevel{.alpha = 0, .sigma = 1}));
  EXPECT_EQ(schedule.steps[0].to, schedule.steps[1].from);
  EXPECT_EQ(schedule.steps[1].to, kNoNoise);
  EXPECT_DOUBLE_EQ(schedule.steps[1].timestep, 1000 * schedule.steps[1].from.sigma);
}

// Integer timesteps are truncated, not rounded: 999.999 is 999.
TEST(FlowSchedule, SolversOfDiffusionTakeWholeTimesteps) {
  FlowSchedule schedule{.spacing = FlowSpacing::kUniPC, .use_dynamic_shifting = false};
  EXPECT_EQ(schedule.schedule(4, 256).steps[0].timestep, 999);
  EXPECT_NEAR(schedule.sigmas(4, 256)[0], 1 - 1e-6, 5e-8);
  schedule.spacing = FlowSpacing::kDpmSolver;
  EXPECT_NEAR(schedule.sigmas(4, 256)[0], 0.999, 1e-12);
}

}  // namespace
}  // namespace headroom
