#include "measure/results/timing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "measure/protocol/ladder_rounds.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A visit of six steps around `ms`; `waited_ms` is the time that threads waited for a CPU in each.
Trials six_steps(double ms, std::int64_t process, std::optional<std::int64_t> round, double waited_ms = 0) {
  Trials trials{.wall_ms = {ms - 1, ms, ms, ms, ms, ms + 1}, .process = process, .round = round, .conditions = {}};
  trials.conditions.waited_ms.assign(trials.wall_ms.size(), waited_ms);
  return trials;
}

/// Requests of two images in ten steps.
Result requests(const std::vector<Trials>& visits) {
  Result result;
  result.subject.request = {{"images", 2}, {"steps", 10}};
  for (const Trials& trials : visits) add_visit(result, "step", trials);
  return result;
}

TEST(Timing, OfOneVisitOfALadderHasNoInterval) {
  const Timing one = *timing_of(requests({six_steps(100, 0, 0)}));
  EXPECT_EQ(one.median_ms, 500);
  EXPECT_FALSE(one.interval_ms);
  EXPECT_EQ(one.no_interval, "one round says nothing of how rounds differ");
  const Timing two = *timing_of(requests({six_steps(100, 0, 0), six_steps(100, 0, 1)}));
  EXPECT_TRUE(two.interval_ms);
  EXPECT_EQ(two.no_interval, "");
  EXPECT_TRUE(timing_of(requests({six_steps(100, 0, {})}))->interval_ms) << "no ladder, so its trials are all there is";
}

TEST(Timing, OfFewTrialsSaysHowManyItTakes) {
  Trials few = six_steps(100, 0, {});
  few.wall_ms.resize(3);
  few.conditions = {};
  const Timing timing = *timing_of(requests({few}));
  EXPECT_FALSE(timing.interval_ms);
  EXPECT_EQ(timing.no_interval, "3 trials give no 95% interval, 6 would");
}

TEST(Timing, OfATableSaysHowManyTrialsItTakes) {
  Trials few = six_steps(100, 0, {});
  few.wall_ms.resize(3);
  few.conditions = {};
  std::vector<Result> results = {requests({six_steps(100, 0, {})}), requests({few}), requests({few})};
  for (std::size_t i = 0; i < results.size(); ++i) results[i].name = std::string(1, static_cast<char>('a' + i));
  const auto few_of = [&](std::size_t first, std::size_t count) {
    return remark_on_few_trials(std::span(results).subspan(first, count), "step", "--trials");
  };
  EXPECT_EQ(few_of(1, 2), "\n3 trials give no 95% interval, 6 would (--trials)\n") << "all of them";
  EXPECT_EQ(few_of(0, 2), "\nb: 3 trials give no 95% interval, 6 would (--trials)\n");
  EXPECT_EQ(few_of(0, 3), "\nb and 1 more: 3 trials give no 95% interval, 6 would (--trials)\n");
  EXPECT_EQ(remark_on_few_trials(std::span(results).last(1), "step", ""), "\n3 trials give no 95% interval, 6 would\n");
  EXPECT_EQ(remark_on_few_trials(std::span(results).first(1), "step", "--trials"), "");
  EXPECT_EQ(remark_on_few_trials(results, "launch", "--trials"), "") << "it has none";
}

TEST(WhyUnsettled, IsWhatDisturbedMostProcesses) {
  EXPECT_FALSE(why_unsettled(requests({six_steps(100, 0, {}, 1)})));
  EXPECT_THAT(*why_unsettled(requests({six_steps(100, 0, {}, 40)})), HasSubstr("40% of a typical step's time"));
  EXPECT_FALSE(why_unsettled(requests({six_steps(100, 0, {}, 40), six_steps(100, 1, {}, 1)})));
  EXPECT_TRUE(
      why_unsettled(requests({six_steps(100, 0, {}, 40), six_steps(100, 1, {}, 40), six_steps(100, 2, {}, 1)})));
  EXPECT_FALSE(why_unsettled(requests({six_steps(100, 0, 0, 40)}))) << "a ladder judges its own rounds";
  Result cached = requests({six_steps(100, 0, {}, 40)});
  cached.computed_share = std::vector<double>(10, 0.5);
  EXPECT_FALSE(why_unsettled(cached)) << "4% of a generation, whose mean step a trial of a step cache is";
  Result rung = requests({six_steps(100, 0, 0)});
  rung.unsettled = "its rounds disagree";
  EXPECT_EQ(why_unsettled(rung), "its rounds disagree");
}

TEST(WhyUnsettled, IsOfKernelsAsBelowTheirTable) {
  const auto kernel = [](double waited_ms) {
    Result result = requests({six_steps(100, 0, {}, waited_ms)});
    result.trials[0].what = "launch";
    result.configuration.device = "cpu";
    return why_unsettled(result);
  };
  EXPECT_THAT(kernel(40).value(), HasSubstr("40% of a typical launch's time"));
  EXPECT_FALSE(kernel(1));
}

TEST(Speedup, IsTheRatioOfMediansOfTimesOfImages) {
  const Result base = requests({six_steps(100, 0, {})});
  Result fewer = requests({six_steps(100, 0, {})});
  fewer.configuration.applied = {"steps=5"};
  const std::optional<Estimate> factor = speedup(base, fewer, /*is_one_file=*/true);
  ASSERT_TRUE(factor);
  EXPECT_EQ(factor->value, 2) << "half as many steps of the same time";
}

TEST(Speedup, HasAnIntervalOnlyOfSeveralProcesses) {
  const Result one = requests({six_steps(100, 0, {})});
  const Result two = requests({six_steps(100, 0, {}), six_steps(102, 1, {})});
  EXPECT_EQ(why_no_factor_interval(one), "one process says nothing of how processes differ");
  EXPECT_EQ(why_no_factor_interval(two), "");
  EXPECT_TRUE(speedup(two, two, /*is_one_file=*/false)->interval);
  EXPECT_FALSE(speedup(two, one, /*is_one_file=*/false)->interval);
  EXPECT_FALSE(speedup(one, two, /*is_one_file=*/false)->interval);
  const Result visits = requests({six_steps(100, 0, 0), six_steps(102, 0, 1)});
  EXPECT_EQ(why_no_factor_interval(visits), "") << "rounds of a ladder are its replicates";
  EXPECT_EQ(why_no_factor_interval(requests({six_steps(100, 0, 0)})), "one round says nothing of how rounds differ");
}

TEST(Speedup, OfALadderIsThatOfItsRounds) {
  // The second process runs at half the speed; the ratio of medians of all trials would be 2.01.
  Result base = requests(
      {six_steps(100, 0, 0), six_steps(100, 0, 1), six_steps(100, 0, 2), six_steps(200, 1, 2), six_steps(200, 1, 3)});
  Result rung = requests({six_steps(50, 0, 0), six_steps(50, 0, 1), six_steps(100, 1, 2)});
  base.id = "baseline";
  rung.id = "rung";
  EXPECT_NEAR(speedup(base, rung, /*is_one_file=*/true)->value, 2, 1e-9);
  EXPECT_EQ(speedup(base, rung, /*is_one_file=*/true)->value, round_factor(base, rung)->value);
}

}  // namespace
}  // namespace headroom
