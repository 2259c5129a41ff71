#include "measure/statistics/latency.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/test_util.hpp"
#include "measure/gates/budget.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FrameTimes frame_of(std::int64_t number, double device_ms) {
  return {.frame = number,
          .arrived_ms = 10.0 * static_cast<double>(number),
          .latency_ms = device_ms + 3.5,
          .decode_ms = 1,
          .queue_ms = 0.5,
          .device_ms = device_ms,
          .encode_ms = 2,
          .repeated = device_ms == 0};
}

/// `frames` frames, which take 1, 2, 3, ... ms on the device.
LatencyRecord rising(std::int64_t frames) {
  LatencyLog log(static_cast<std::size_t>(frames));
  for (std::int64_t i = 0; i < frames; ++i) log.add(frame_of(i, static_cast<double>(i + 1)));
  return log.record(std::nullopt, false, 1);
}

TEST(Latency, HasQuantilesJitterAndDrift) {
  // 4.5, 5.5, ... 104.5 ms: quantile p lies at 4.5 + 100 p.
  const LatencySummary summary = rising(101).statistics;
  EXPECT_DOUBLE_EQ(summary.mean_ms, 54.5);
  EXPECT_DOUBLE_EQ(summary.p50_ms, 54.5);
  EXPECT_DOUBLE_EQ(summary.p90_ms, 94.5);
  EXPECT_DOUBLE_EQ(summary.p99_ms, 103.5);
  EXPECT_DOUBLE_EQ(summary.p99_9_ms, 104.4);
  EXPECT_DOUBLE_EQ(summary.max_ms, 104.5);
  EXPECT_DOUBLE_EQ(summary.jitter_ms, 1);
  // Twenty frames in each fifth, with medians 14 and 95.
  ASSERT_TRUE(summary.drift.has_value());
  EXPECT_DOUBLE_EQ(*summary.drift, (95.0 - 14.0) / 14.0);
}

TEST(Latency, OfOneFrameHasNeitherJitterNorDrift) {
  const LatencySummary summary = summarize_latency(std::vector<double>{7});
  EXPECT_DOUBLE_EQ(summary.p99_9_ms, 7);
  EXPECT_DOUBLE_EQ(summary.jitter_ms, 0);
  EXPECT_FALSE(summary.drift.has_value());
  EXPECT_THAT(error_of([] { (void)summarize_latency({}); }), HasSubstr("no frames"));
}

TEST(Latency, LogKeepsColumnsAndCounts) {
  LatencyLog log;
  log.add(frame_of(0, 4));
  log.drop();
  log.add(frame_of(2, 0));
  const LatencyRecord record = log.record(60.0, true, 0.25);
  EXPECT_EQ(record.came, 3);
  EXPECT_EQ(record.shown, 2);
  EXPECT_EQ(record.dropped, 1);
  EXPECT_EQ(record.repeated, 1);
  EXPECT_THAT(record.frame, ElementsAre(0, 2));
  EXPECT_THAT(record.arrived_ms, ElementsAre(0, 20));
  EXPECT_THAT(record.latency_ms, ElementsAre(7.5, 3.5));
  EXPECT_THAT(record.repeated_frames, ElementsAre(2));
  EXPECT_EQ(record.input_fps, 60);
  check_latency(record, "it");
}

TEST(Latency, LogOfALongStreamKeepsTheLastFrames) {
  LatencyLog log(4);
  for (std::int64_t i = 0; i < 10; ++i) log.add(frame_of(i, static_cast<double>(i + 1)));
  const LatencyRecord record = log.record(std::nullopt, false, 1);
  EXPECT_EQ(record.shown, 10);
  EXPECT_THAT(record.frame, ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(record.device_ms, ElementsAre(7, 8, 9, 10));
  check_latency(record, "it");
}

TEST(Latency, RefusesWhatContradictsItself) {
  const auto refusal = [](const std::function<void(LatencyRecord&)>& change) {
    LatencyRecord record = rising(5);
    change(record);
    return error_of([&] { check_latency(record, "it"); });
  };
  EXPECT_THAT(refusal([](LatencyRecord& record) { record.queue_ms.pop_back(); }), HasSubstr("a column of 4 entries"));
  EXPECT_THAT(refusal([](LatencyRecord& record) { record.frame[3] = 2; }), HasSubstr("frame 2 of the latency of it"));
  EXPECT_THAT(refusal([](LatencyRecord& record) { record.encode_ms[1] = 3; }), HasSubstr("its parts add up to"));
  EXPECT_THAT(refusal([](LatencyRecord& record) { record.dropped = 1; }), HasSubstr("5 were shown and 1 dropped"));
  EXPECT_THAT(refusal([](LatencyRecord& record) { record.came = record.shown = 4; }), HasSubstr("5 frames up to"));
  EXPECT_THAT(refusal([](LatencyRecord& record) { record.repeated = 6; }),
              HasSubstr("6 frames were repeated and 5 shown"));
  EXPECT_THAT(refusal([](LatencyRecord& record) {
                record.repeated = 1;
                record.repeated_frames = {5};
              }),
              HasSubstr("names frame 5 as repeated"));
  EXPECT_THAT(refusal([](LatencyRecord& record) { record = {}; }), HasSubstr("no frames"));
}

TEST(Latency, KeepsWithinABudgetOrNot) {
  const LatencyRecord record = rising(101);  // p99 is 103.5 ms
  EXPECT_EQ(judge_budget("it", record, 104).verdict, BudgetVerdict::kMet);
  EXPECT_EQ(judge_budget("it", record, 103).verdict, BudgetVerdict::kMissed);
  EXPECT_EQ(judge_budget("it", rising(99), 104).verdict, BudgetVerdict::kInconclusive);
  LatencyRecord lossy = record;
  lossy.dropped = 1;
  const BudgetLine line = judge_budget("it", lossy, 104);
  EXPECT_EQ(line.verdict, BudgetVerdict::kMissed);
  EXPECT_THAT(line.why, HasSubstr("dropped"));
}

}  // namespace
}  // namespace headroom
