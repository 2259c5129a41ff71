#include "measure/statistics/trials.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "measure/results/result.hpp"

namespace headroom {
namespace {

void wait_ms(double ms) {
  // Sleeping may take longer than asked but never less, so lower bounds hold on a loaded machine.
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

TEST(Settled, NeedsFiveTimes) {
  EXPECT_FALSE(is_settled(std::vector<double>()));
  EXPECT_FALSE(is_settled({1, 1, 1, 1}));
  EXPECT_TRUE(is_settled({1, 1, 1, 1, 1}));
}

TEST(Settled, SeesATrendButNotASingleSpike) {
  EXPECT_FALSE(is_settled({10, 9, 8, 7, 6}));
  EXPECT_FALSE(is_settled({6, 7, 8, 9, 10}));
  EXPECT_TRUE(is_settled({90, 10, 10, 10, 10}));
  EXPECT_TRUE(is_settled({10, 10, 50, 10, 10}));
}

TEST(Settled, AllowsFivePercent) {
  EXPECT_TRUE(is_settled({100, 100, 100, 105, 105}));
  EXPECT_FALSE(is_settled({100, 100, 100, 106, 106}));
}

TEST(Settled, LooksAtTheLastTimesOnly) { EXPECT_TRUE(is_settled({900, 500, 200, 10, 10, 10, 10, 10})); }

TEST(MeasureCallable, TimesEachCallAlone) {
  int calls = 0;
  const Trials trials = measure_callable(
      [&] {
        ++calls;
        wait_ms(2);
      },
      {.warmup_min = 2, .warmup_max = 2, .trials = 6});
  EXPECT_EQ(trials.wall_ms.size(), 6U);
  EXPECT_EQ(trials.warmup, 2);
  EXPECT_EQ(calls, 8);
  EXPECT_TRUE(trials.complete);
  EXPECT_EQ(trials.process, 0);
  for (const double ms : trials.wall_ms) EXPECT_GE(ms, 2);
}

// A body whose n-th call takes a known time on a simulated clock.
class SimulatedWork {
 public:
  explicit SimulatedWork(std::function<double(int)> duration_ms) : duration_ms_(std::move(duration_ms)) {}
  Trials measure(const Protocol& protocol, const std::function<void(const TrialProgress&)>& on_progress = {}) {
    return measure_callable([this] { pass_ms(duration_ms_(++calls_)); }, protocol, on_progress,
                            [this] { return now_ms_; });
  }
  void pass_ms(double ms) { now_ms_ += ms; }

 private:
  std::function<double(int)> duration_ms_;
  int calls_ = 0;
  double now_ms_ = 12345;
};

TEST(MeasureCallable, KeepsEveryTrialInOrder) {
  SimulatedWork work([](int call) { return call == 7 ? 64.0 : 8.0 + call % 2; });
  const Trials trials = work.measure({.warmup_max = 5, .trials = 4});
  EXPECT_EQ(trials.wall_ms, (std::vector<double>{8, 64, 8, 9}));
}

TEST(MeasureCallable, WarmsUpUntilTimesSettle) {
  SimulatedWork work([](int call) { return call <= 8 ? 40.0 - 4 * call : 4.0; });
  const Trials trials = work.measure({.trials = 3});
  // Calls 9 to 12 are the first four of equal time; the two windows then share a median: {10..12} and {8..10}.
  EXPECT_EQ(trials.warmup, 12);
  EXPECT_TRUE(trials.warmup_stable);
  EXPECT_EQ(trials.wall_ms, (std::vector<double>{4, 4, 4}));
}

TEST(MeasureCallable, SaysWhenWarmUpDidNotSettle) {
  SimulatedWork work([](int call) { return 1.0 * call; });
  const Trials trials = work.measure({.warmup_max = 6, .trials = 1});
  EXPECT_EQ(trials.warmup, 6);
  EXPECT_FALSE(trials.warmup_stable);
  EXPECT_EQ(trials.wall_ms, std::vector<double>{7});
}

TEST(MeasureCallable, WarmsUpFiveTimesAndRunsThreeTrialsWhenTimeIsUpAtOnce) {
  SimulatedWork work([](int call) { return 1000.0 * call; });
  const Trials trials = work.measure({.max_seconds = 0.5});
  EXPECT_EQ(trials.warmup, 5);
  EXPECT_FALSE(trials.warmup_stable);
  EXPECT_EQ(trials.wall_ms, (std::vector<double>{6000, 7000, 8000}));
  EXPECT_FALSE(trials.complete);
}

TEST(MeasureCallable, StopsTrialsWhenTimeIsUp) {
  SimulatedWork work([](int) { return 100.0; });
  const Trials trials = work.measure({.trials = 1000, .max_seconds = 1.45});
  EXPECT_EQ(trials.warmup, 5);
  EXPECT_EQ(trials.wall_ms.size(), 10U);  // the first moment past 1450 ms is 1500 ms, after fifteen calls
  EXPECT_FALSE(trials.complete);
}

TEST(MeasureCallable, TellsProgressOutsideWhatIsTimed) {
  std::vector<TrialProgress> seen;
  SimulatedWork work([](int) { return 3.0; });
  const Trials trials =
      work.measure({.warmup_min = 1, .warmup_max = 1, .trials = 3}, [&](const TrialProgress& progress) {
        seen.push_back(progress);
        work.pass_ms(20);
      });
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_TRUE(seen[0].warming_up);
  EXPECT_EQ(seen[0].total, 1);
  EXPECT_FALSE(seen[1].warming_up);
  EXPECT_EQ(seen[3].done, 3);
  EXPECT_EQ(seen[3].total, 3);
  EXPECT_EQ(seen[3].last_ms, 3);
  EXPECT_EQ(trials.wall_ms, (std::vector<double>{3, 3, 3}));
}

TEST(MeasureCallable, BatchesShortCallsAndReportsOne) {
  int calls = 0;
  SimulatedWork work([&](int call) {
    calls = call;
    return call <= 5 ? 0.25 : 0.125 * (call % 2 + 1);  // of a batch of four, two take 0.25 ms and two 0.125 ms
  });
  const Trials trials = work.measure({.trials = 2, .min_trial_ms = 0.9});
  EXPECT_EQ(trials.warmup, 5);
  EXPECT_EQ(calls, 5 + 2 * 4);
  EXPECT_EQ(trials.wall_ms, (std::vector<double>{0.1875, 0.1875}));
}

TEST(MeasureCallable, GoesOnUntilItIsPreciseEnough) {
  // Times alternate between 99 and 101, so the interval of the median is [99, 101]: 1% on each side, whatever n is.
  const auto alternating = [](int call) { return call % 2 == 0 ? 99.0 : 101.0; };
  const Trials enough = SimulatedWork(alternating).measure({.trials = 20, .precision = 0.0101});
  EXPECT_EQ(enough.wall_ms.size(), 20U);
  EXPECT_TRUE(enough.complete);
  const Trials never = SimulatedWork(alternating).measure({.trials = 20, .precision = 0.009, .max_trials = 70});
  EXPECT_EQ(never.wall_ms.size(), 70U);
  EXPECT_FALSE(never.complete);
  // Noise that ends after 40 calls: the interval narrows as more of the times are equal.
  const Trials later = SimulatedWork([](int call) {
                         return call <= 40 ? 90.0 + call : 100.0;
                       }).measure({.warmup_min = 0, .warmup_max = 0, .trials = 20, .precision = 0.01});
  EXPECT_TRUE(later.complete);
  EXPECT_GT(later.wall_ms.size(), 40U);
  EXPECT_LT(later.wall_ms.size(), 100U);
}

TEST(MeasureSelfTimed, TakesTheReportedTimeAndCountsAllOfItAgainstTheLimit) {
  double now_ms = 0;
  int calls = 0;
  const auto timed = [&] {
    ++calls;
    now_ms += 100;  // only two of them count
    return 2.0;
  };
  const Trials trials =
      measure_self_timed(timed, {.trials = 1000, .max_seconds = 1.45, .min_trial_ms = 50}, {}, [&] { return now_ms; });
  EXPECT_EQ(calls, 15) << "each call is a trial, however short";
  EXPECT_EQ(trials.wall_ms, std::vector<double>(10, 2.0));
  EXPECT_FALSE(trials.complete);
}

TEST(Precise, WantsTheIntervalOfTheMedianWithinTheShare) {
  EXPECT_FALSE(is_precise({}, 0.5));
  EXPECT_FALSE(is_precise({100, 100, 100, 100, 100}, 0.5)) << "five have no 95% interval";
  EXPECT_TRUE(is_precise({100, 100, 100, 100, 100, 100}, 0));
  // For six times the interval reaches from the smallest to the largest: 96 to 104, 4% on either side.
  EXPECT_TRUE(is_precise({96, 98, 100, 100, 102, 104}, 0.04));
  EXPECT_FALSE(is_precise({96, 98, 100, 100, 102, 104}, 0.039));
}

TEST(MeasureCallable, StopsShortOfPrecisionWhenTimeIsUp) {
  const Trials trials = SimulatedWork([](int call) {
                          return call % 2 == 0 ? 80.0 : 120.0;
                        }).measure({.trials = 20, .max_seconds = 5, .precision = 0.01});
  EXPECT_FALSE(trials.complete);
  EXPECT_EQ(trials.wall_ms.size(), 50U - static_cast<std::size_t>(trials.warmup));
}

// The accuracy required by the project: the measured time of a 10 us callable is within 1%, although reading the
// clock takes 1 us.
TEST(MeasureCallable, BiasesShortWorkByAtMostOnePercent) {
  constexpr double kCallMs = 0.01, kReadMs = 0.001;
  double now_ms = 0;
  const Trials trials = measure_callable([&] { now_ms += kCallMs; }, {.warmup_max = 5, .trials = 10, .min_trial_ms = 1},
                                         {}, [&] { return now_ms += kReadMs; });
  ASSERT_EQ(trials.wall_ms.size(), 10U);
  for (const double ms : trials.wall_ms) EXPECT_NEAR(ms, kCallMs, 0.01 * kCallMs);
}

TEST(MeasureCallable, NotesWhatTheMachineDidInEveryTrial) {
  const Trials trials = SimulatedWork([](int) { return 1.0; }).measure({.trials = 7});
  EXPECT_EQ(trials.conditions.preemptions.size(), 7U);
  const TrialSeries series = make_series("step", trials);
  EXPECT_EQ(series.conditions, trials.conditions);
  // A process that nobody watched leaves gaps, so the column is emptied.
  EXPECT_TRUE(
      make_series("step", std::vector<Trials>{trials, Trials{.wall_ms = {1}, .process = 1}}).conditions.empty());
}

TEST(MeasureCallable, PassesFailuresThrough) {
  EXPECT_THROW((void)measure_callable([] { throw std::runtime_error("broken"); }), std::runtime_error);
}

TEST(MeasureCallable, RefusesSenselessProtocols) {
  const auto nothing = [] {};
  EXPECT_THROW((void)measure_callable(nothing, {.trials = 0}), Error);
  EXPECT_THROW((void)measure_callable(nothing, {.warmup_min = -1}), Error);
  EXPECT_THROW((void)measure_callable(nothing, {.warmup_min = 9, .warmup_max = 8}), Error);
  EXPECT_THROW((void)measure_callable(nothing, {.max_seconds = 0}), Error);
  EXPECT_THROW((void)measure_callable(nothing, {.min_trial_ms = -1}), Error);
  EXPECT_THROW((void)measure_callable(nothing, {.precision = -0.1}), Error);
}

}  // namespace
}  // namespace headroom
