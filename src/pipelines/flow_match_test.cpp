#include "pipelines/flow_match.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(FlowMatchSchedule, ShiftIsLinearInTheNumberOfTokens) {
  const FlowMatchSchedule schedule;
  EXPECT_DOUBLE_EQ(schedule.shift(256), 0.5);
  EXPECT_DOUBLE_EQ(schedule.shift(4096), 1.15);
  EXPECT_DOUBLE_EQ(schedule.shift(2176), 0.825);  // half way
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

TEST(FlowMatchSchedule, ReadsDiffusersKeysAndRefusesOtherSchedulers) {
  const FlowMatchSchedule schedule = parse_flow_match_schedule({{"base_shift", 0.25}, {"max_image_seq_len", 1024}});
  EXPECT_DOUBLE_EQ(schedule.base_shift, 0.25);
  EXPECT_EQ(schedule.max_tokens, 1024);
  EXPECT_THROW(static_cast<void>(parse_flow_match_schedule({{"_class_name", "DDIMScheduler"}})), Error);
  EXPECT_THROW(static_cast<void>(parse_flow_match_schedule({{"use_dynamic_shifting", false}})), Error);
  EXPECT_THROW(static_cast<void>(parse_flow_match_schedule({{"max_image_seq_len", 256}})), Error);
}

}  // namespace
}  // namespace headroom
