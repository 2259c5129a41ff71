#include "pipelines/flow_match.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(FlowMatchSchedule, ShiftIsLinearInTheNumberOfTokens) {
  const FlowMatchSchedule schedule;
  EXPECT_DOUBLE_EQ(schedule.dynamic_shift(256), 0.5);
  EXPECT_DOUBLE_EQ(schedule.dynamic_shift(4096), 1.15);
  EXPECT_DOUBLE_EQ(schedule.dynamic_shift(2176), 0.825);  // half way
}

TEST(FlowMatchSchedule, SigmasFallFromOneToZero) {
  const std::vector<double> sigmas = FlowMatchSchedule{}.sigmas(4, 256);
  ASSERT_EQ(sigmas.size(), 5U);
  EXPECT_DOUBLE_EQ(sigmas[0], 1.0);
  // e^0.5 / (e^0.5 + 1/sigma - 1) at 3/4, 1/2, 1/4, by hand
  EXPECT_NEAR(sigmas[1], 0.831824, 1e-6);
  EXPECT_NEAR(sigmas[2], 0.622459, 1e-6);
  EXPECT_NEAR(sigmas[3], 0.354661, 1e-6);
  EXPECT_DOUBLE_EQ(sigmas[4], 0.0);
}

TEST(FlowMatchSchedule, AFixedShiftIsTheSameForAllSizes) {
  const FlowMatchSchedule schedule = parse_flow_match_schedule({{"shift", 3.0}});  // not dynamic unless said
  for (const std::int64_t tokens : {16, 4096}) EXPECT_DOUBLE_EQ(schedule.sigmas(2, tokens)[1], 0.75);  // 3 / (3 + 1)
  EXPECT_DOUBLE_EQ(parse_flow_match_schedule(nlohmann::json::object()).sigmas(4, 256)[1], 0.75);       // evenly
}

// Qwen-Image's, 50 steps of a shift of 0.83432: levels as diffusers prints them.
TEST(FlowMatchSchedule, ATerminalStretchesTheLevels) {
  FlowMatchSchedule schedule{.base_shift = 0.83432, .max_shift = 0.83432, .shift_terminal = 0.02};
  const std::vector<double> sigmas = schedule.sigmas(50, 256);
  EXPECT_NEAR(sigmas[1], 0.99099, 5e-6);
  EXPECT_NEAR(sigmas[48], 0.06378, 5e-6);
  EXPECT_NEAR(sigmas[49], 0.02, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.sigmas(1, 256)[0], 1.0);
}

TEST(FlowMatchSchedule, ReadsDiffusersKeysAndRefusesOtherSchedulers) {
  const FlowMatchSchedule schedule = parse_flow_match_schedule({{"base_shift", 0.25}, {"max_image_seq_len", 1024}});
  EXPECT_DOUBLE_EQ(schedule.base_shift, 0.25);
  EXPECT_EQ(schedule.max_tokens, 1024);
  EXPECT_THROW(static_cast<void>(parse_flow_match_schedule({{"_class_name", "DDIMScheduler"}})), Error);
  EXPECT_THROW(static_cast<void>(parse_flow_match_schedule({{"use_karras_sigmas", true}})), Error);
  EXPECT_THROW(static_cast<void>(parse_flow_match_schedule({{"time_shift_type", "cubic"}})), Error);
  EXPECT_THROW(static_cast<void>(parse_flow_match_schedule({{"max_image_seq_len", 256}})), Error);
}

}  // namespace
}  // namespace headroom
