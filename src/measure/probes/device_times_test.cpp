#include "measure/probes/device_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;

/// Step 0, then three iterations of steps 1 and 2, then step 3.
Program make_program() {
  Program program;
  program.steps.resize(4);
  for (int i = 0; i < 4; ++i) program.steps[static_cast<std::size_t>(i)].label = "node" + std::to_string(i);
  program.root = {.first = 0,
                  .last = 4,
                  .children = {{.first = 0, .last = 1, .children = {}},
                               {.kind = SegmentKind::kLoop, .trip_count = 3, .first = 1, .last = 3, .children = {}},
                               {.first = 3, .last = 4, .children = {}}}};
  return program;
}

/// Submitted in order of start by default.
DeviceActivity kernel(std::int64_t start_ns, std::int64_t end_ns, std::uint64_t launch = 0) {
  return {.kind = DeviceActivity::Kind::kKernel,
          .name = "k",
          .start_ns = start_ns,
          .end_ns = end_ns,
          .launch = launch == 0 ? static_cast<std::uint64_t>(start_ns) : launch};
}
DeviceActivity host_copy(std::int64_t start_ns, std::int64_t end_ns) {
  return {.kind = DeviceActivity::Kind::kHostCopy, .name = "copy", .start_ns = start_ns, .end_ns = end_ns};
}

/// Step 1 has two activities, the others one; step 2 has none if `silent`.
LaunchTimes learned(const Program& program) {
  LaunchTimes times(program);
  std::vector<std::pair<int, std::int64_t>> ends;
  std::vector<DeviceActivity> activities;
  std::int64_t now = 0;
  for (const int step : launch_order(program)) {
    activities.push_back(host_copy(now, now + 1));
    activities.push_back(kernel(now + 1, now + 4));
    if (step == 1) activities.push_back(kernel(now + 5, now + 9));
    now += 10;
    ends.emplace_back(step, now);
  }
  times.learn(ends, activities);
  return times;
}

TEST(LaunchTimes, OrderUnrollsLoops) { EXPECT_THAT(launch_order(make_program()), ElementsAre(0, 1, 2, 1, 2, 1, 2, 3)); }

TEST(LaunchTimes, GivesEachLaunchItsPiecesInOrder) {
  const Program program = make_program();
  LaunchTimes times = learned(program);
  std::vector<DeviceActivity> run = {kernel(0, 1'000'000)};
  for (std::int64_t iteration = 0; iteration < 3; ++iteration) {
    const std::int64_t at = 2'000'000 + iteration * 10'000'000;
    run.push_back(host_copy(at - 500, at - 400));
    run.push_back(kernel(at, at + 2'000'000));              // step 1
    run.push_back(kernel(at + 2'000'000, at + 3'000'000));  // step 1
    run.push_back(kernel(at + 5'000'000, at + 9'000'000 + iteration * 1'000'000));
  }
  run.push_back(kernel(40'000'000, 47'000'000));
  times.add(run);
  EXPECT_THAT(times.launch_ms()[0], ElementsAre(1.0));
  EXPECT_THAT(times.launch_ms()[1], ElementsAre(3.0, 3.0, 3.0));
  EXPECT_THAT(times.launch_ms()[2], ElementsAre(4.0, 5.0, 6.0));
  EXPECT_THAT(times.launch_ms()[3], ElementsAre(7.0));
  EXPECT_THAT(times.steps_of_last(), ElementsAre(0, 1, 1, 2, 1, 1, 2, 1, 1, 2, 3));
  // An iteration of 10 ms is busy for 7, then 8; the last has no next iteration to end it.
  ASSERT_EQ(times.idle_shares().size(), 2U);
  EXPECT_NEAR(times.idle_shares()[0], 0.3, 1e-12);
  EXPECT_NEAR(times.idle_shares()[1], 0.2, 1e-12);
  EXPECT_THAT(times.busy_ms(), ElementsAre(7.0, 8.0));
}

TEST(LaunchTimes, AFillMayBeAKernelOfTheDriverInARecording) {
  const Program program = make_program();
  LaunchTimes times(program);
  std::vector<std::pair<int, std::int64_t>> ends;
  std::vector<DeviceActivity> filled, recorded;
  std::int64_t now = 0;
  for (const int step : launch_order(program)) {
    filled.push_back({.kind = DeviceActivity::Kind::kFill, .name = "fill", .start_ns = now, .end_ns = now + 1});
    recorded.push_back(kernel(now, now + 1'000'000));
    recorded.back().name = "memset32";
    ends.emplace_back(step, now + 5);
    now += 10'000'000;
  }
  times.learn(ends, filled);
  times.add(recorded);
  EXPECT_THAT(times.launch_ms()[3], ElementsAre(1.0));
}

TEST(LaunchTimes, RefusesARunWithMoreOrFewerPieces) {
  const Program program = make_program();
  LaunchTimes times = learned(program);
  std::vector<DeviceActivity> run;
  for (std::int64_t i = 0; i < 10; ++i) run.push_back(kernel(10 * i, 10 * i + 5));  // one is missing
  EXPECT_THROW(times.add(run), Error);
  run.push_back(kernel(200, 201));
  times.add(run);
  run.push_back(kernel(300, 301));
  EXPECT_THROW(times.add(run), Error);
}

TEST(LaunchTimes, FollowsSubmissionWhereStreamsRunConcurrently) {
  Program program;
  program.steps.resize(2);
  program.root = {.first = 0, .last = 2, .children = {}};
  LaunchTimes times(program);
  std::vector<DeviceActivity> alone = {kernel(1, 2), kernel(11, 12)};
  alone[0].name = "first";
  alone[1].name = "second";
  times.learn(std::vector<std::pair<int, std::int64_t>>{{0, 10}, {1, 20}}, alone);
  // One replay, in which the second activity began before the first.
  std::vector<DeviceActivity> replay = {kernel(100, 2'000'100, 7), kernel(200, 1'000'200, 7)};
  replay[0].name = "second";
  replay[0].in_replay = 12;
  replay[1].name = "first";
  replay[1].in_replay = 11;
  replay[1].stream = 1;
  times.add(replay);
  EXPECT_THAT(times.launch_ms()[0], ElementsAre(1.0));
  EXPECT_THAT(times.launch_ms()[1], ElementsAre(2.0));
  EXPECT_THAT(times.steps_of_last(), ElementsAre(1, 0));
  std::swap(replay[0].in_replay, replay[1].in_replay);
  EXPECT_THROW(times.add(replay), Error) << "names that contradict the order";
}

TEST(LaunchTimes, RefusesALaunchThatChanges) {
  const Program program = make_program();
  LaunchTimes times(program);
  const std::vector<std::pair<int, std::int64_t>> ends = {{0, 10}, {1, 20}, {2, 30}, {1, 40}};
  const std::vector<DeviceActivity> activities = {kernel(1, 2), kernel(11, 12), kernel(21, 22), kernel(31, 32),
                                                  kernel(33, 34)};
  EXPECT_THROW(times.learn(ends, activities), Error);
}

TEST(OwnTime, CountsFromTheEndOfTheOneBeforeOnItsStream) {
  std::vector<DeviceActivity> activities = {kernel(100, 200), kernel(150, 260),  // began early, waited until 200
                                            kernel(150, 250),                    // over before its predecessor
                                            kernel(260, 300), kernel(310, 320),  // without predecessor, and with a gap
                                            kernel(320, 400), kernel(330, 350)};
  activities[6].stream = 1;  // on another stream
  EXPECT_THAT(own_ns(activities), ElementsAre(100, 60, 0, 40, 10, 80, 20));
  EXPECT_THAT(own_ns({}), ElementsAre());
}

TEST(OwnTime, OfAStreamAddsUpToWhatItWasBusy) {
  std::vector<DeviceActivity> activities;
  for (std::int64_t i = 0; i < 50; ++i) activities.push_back(kernel(10 * i, 10 * i + 3 + i * 37 % 29));
  std::int64_t sum = 0;
  for (const std::int64_t own : own_ns(activities)) sum += own;
  EXPECT_EQ(sum, busy_ns(activities, 0, 1000));
}

TEST(LaunchTimes, CountNoTimeOfOverlappingKernelsTwice) {
  Program program;
  program.steps.resize(2);
  program.root = {.first = 0, .last = 2, .children = {}};
  LaunchTimes times(program);
  times.learn(std::vector<std::pair<int, std::int64_t>>{{0, 10}, {1, 20}},
              std::vector<DeviceActivity>{kernel(1, 2), kernel(11, 12)});
  times.add(std::vector<DeviceActivity>{kernel(1'000'000, 4'000'000), kernel(2'000'000, 5'000'000)});
  EXPECT_THAT(times.launch_ms()[0], ElementsAre(3.0));
  EXPECT_THAT(times.launch_ms()[1], ElementsAre(1.0));
}

TEST(BusyTime, CountsWhatNothingCoversOnce) {
  const std::vector<DeviceActivity> activities = {kernel(0, 10), kernel(5, 20), kernel(8, 12), kernel(50, 60),
                                                  kernel(95, 130)};
  EXPECT_EQ(busy_ns(activities, 0, 100), 35);
  EXPECT_EQ(busy_ns({}, 0, 100), 0);
}

}  // namespace
}  // namespace headroom
