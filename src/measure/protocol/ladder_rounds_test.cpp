#include "measure/protocol/ladder_rounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/tensors/random.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Twenty steps around a time, within one percent.
std::vector<double> around(double ms) {
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) times.push_back(ms * (1 + 0.01 * std::sin(i)));
  return times;
}

Visit visit(std::int64_t round, double ms, std::string disturbance = {}, std::int64_t process = 0) {
  return {.id = {.process = process, .round = round}, .image_ms = around(ms), .disturbance = std::move(disturbance)};
}

/// The baseline at 100 ms around the given number of rounds.
std::vector<Visit> quiet_baseline(int rounds) {
  std::vector<Visit> baseline;
  for (int round = 0; round <= rounds; ++round) baseline.push_back(visit(round, 100));
  return baseline;
}

TEST(RungVerdict, IsSettledWhereTwoQuietRoundsAgree) {
  const RungVerdict verdict = judge_rung(quiet_baseline(2), std::vector{visit(0, 50), visit(1, 50.5)});
  EXPECT_EQ(verdict.unsettled, "");
  EXPECT_NEAR(verdict.factor.value, 1.99, 0.01);
  EXPECT_EQ(verdict.factor.rounds, 2);
  ASSERT_TRUE(verdict.factor.interval);
  EXPECT_LT(verdict.factor.interval->low, 1.98);
  EXPECT_GT(verdict.factor.interval->high, 2.0);
  EXPECT_THAT(verdict.left_out, IsEmpty());
}

TEST(RungVerdict, IsUnsettledWhereRoundsDisagreeThoughNothingElseSpeaksAgainstThem) {
  const RungVerdict verdict = judge_rung(quiet_baseline(2), std::vector{visit(0, 50), visit(1, 80)});
  EXPECT_EQ(verdict.unsettled, "its rounds disagree: 1.25x to 2.00x of the baseline's speed");
  EXPECT_THAT(verdict.left_out, IsEmpty()) << "who is to say which is wrong?";
}

TEST(RungVerdict, SaysThatRoundsAreTooFewWhereTheyAgree) {
  // 1.58x and 1.62x are 2.5% apart, but two rounds leave Student's interval one of 12.7 standard errors.
  const RungVerdict verdict = judge_rung(quiet_baseline(2), std::vector{visit(0, 100 / 1.58), visit(1, 100 / 1.62)});
  EXPECT_THAT(verdict.unsettled, testing::StartsWith("too few undisturbed rounds: 2 agree (1.58x to 1.62x of the "
                                                     "baseline's speed), but the factor may be 1.3"));
  const RungVerdict disturbed =
      judge_rung(quiet_baseline(3), std::vector{visit(0, 100 / 1.58), visit(1, 100 / 1.62), visit(2, 200, "load")});
  EXPECT_THAT(disturbed.unsettled, testing::EndsWith("(round 3: load)"));
}

TEST(RungVerdict, SaysThatStepsVaryWhereTheirRoundsAgree) {
  std::vector<Visit> rung = {visit(0, 50), visit(1, 50)};
  for (Visit& one : rung)
    for (std::size_t i = 0; i < one.image_ms.size(); ++i) one.image_ms[i] = i % 2 == 0 ? 38 : 62;
  EXPECT_THAT(judge_rung(quiet_baseline(2), rung).unsettled,
              testing::StartsWith("times within its rounds vary too much: the factor may be "));
}

TEST(RungVerdict, OfOneRoundIsUnsettled) {
  EXPECT_EQ(judge_rung(quiet_baseline(1), std::vector{visit(0, 50)}).unsettled,
            "one round says nothing of how rounds differ");
  EXPECT_THAT(judge_rung({}, std::vector{visit(0, 50)}).unsettled, HasSubstr("not measured around it"));
}

TEST(RungVerdict, LeavesOutADisturbedRoundOnceTwoOthersAgree) {
  std::vector<Visit> rung = {visit(0, 50), visit(1, 170, "other work held the CPUs")};
  const RungVerdict early = judge_rung(quiet_baseline(2), rung);
  EXPECT_EQ(early.unsettled, "only 1 of 2 rounds was undisturbed (round 2: other work held the CPUs)");
  EXPECT_EQ(early.factor.rounds, 2) << "nothing is left out of what is not settled";
  rung.push_back(visit(2, 50));
  const RungVerdict later = judge_rung(quiet_baseline(3), rung);
  EXPECT_EQ(later.unsettled, "");
  EXPECT_NEAR(later.factor.value, 2, 0.01);
  EXPECT_THAT(later.left_out, ElementsAre(VisitId{0, 1}));
}

TEST(RungVerdict, DoesNotTrustARoundWhoseBaselineIsDisturbed) {
  std::vector<Visit> baseline = quiet_baseline(2);
  baseline[1] = visit(1, 100, "the clock was held down");  // between both rounds
  const RungVerdict verdict = judge_rung(baseline, std::vector{visit(0, 50), visit(1, 50)});
  EXPECT_EQ(verdict.unsettled,
            "none of 2 rounds was undisturbed (round 1: the baseline around it: the clock was held down; and 1 more)");
}

TEST(RungVerdict, SeesLoadThatNoConditionTellsOf) {
  // The disturbance begins before the top of the ladder is reached and ends while descending. The rung is twice as
  // slow in both rounds, and so is the baseline between them, which reveals it.
  std::vector<Visit> baseline = quiet_baseline(2);
  baseline[1] = visit(1, 200);
  const RungVerdict verdict = judge_rung(baseline, std::vector{visit(0, 100), visit(1, 100)});
  EXPECT_EQ(
      verdict.unsettled,
      "none of 2 rounds was undisturbed (round 1: the baseline took 100 ms before it and 200 ms after it; and 1 more)");
}

TEST(RungVerdict, PairsWithTheBaselineOfItsOwnProcess) {
  // The second process runs at half the speed, including both rungs of its round 1.
  const std::vector<Visit> baseline = {visit(0, 100), visit(1, 100), visit(1, 200, {}, 1), visit(2, 200, {}, 1)};
  const RungVerdict verdict = judge_rung(baseline, std::vector{visit(0, 50), visit(1, 100, {}, 1)});
  EXPECT_EQ(verdict.unsettled, "");
  EXPECT_NEAR(verdict.factor.value, 2, 0.01);
}

TEST(RungVerdict, MakesDoWithOneBaselineWhereTheLadderWasStoppedInBetween) {
  const std::vector<Visit> baseline = {visit(0, 100), visit(1, 100), visit(1, 100, {}, 1), visit(2, 100, {}, 1)};
  const std::vector<Visit> only_before = {visit(0, 100), visit(1, 100)};
  EXPECT_EQ(judge_rung(baseline, std::vector{visit(0, 50), visit(1, 50, {}, 1)}).unsettled, "");
  EXPECT_EQ(judge_rung(only_before, std::vector{visit(0, 50), visit(1, 50)}).unsettled, "");
}

TEST(BaselineVerdict, NeedsTwoQuietVisits) {
  EXPECT_EQ(judge_baseline(quiet_baseline(2)).unsettled, "");
  EXPECT_EQ(judge_baseline(quiet_baseline(0)).unsettled, "it was measured once");
  std::vector<Visit> baseline = {visit(0, 100), visit(1, 300, "load"), visit(2, 100)};
  EXPECT_EQ(judge_baseline(baseline).unsettled, "");
  EXPECT_THAT(judge_baseline(baseline).left_out, ElementsAre(VisitId{0, 1}));
  baseline[2].disturbance = "load";
  EXPECT_EQ(judge_baseline(baseline).unsettled, "only 1 of 3 visits was undisturbed (visit 2: load; and 1 more)")
      << "of two rounds";
  EXPECT_THAT(judge_baseline(baseline).left_out, IsEmpty());
}

RoundLogs logs(const std::vector<double>& factors) {
  RoundLogs rounds;
  for (const double factor : factors) rounds[std::ssize(rounds)] = {.log = std::log(factor), .variance = 0};
  return rounds;
}

TEST(Factor, IsTheGeometricMeanWithStudentsInterval) {
  const Factor factor = factor_of(logs({1.9, 2.0, 2.1}));
  EXPECT_NEAR(factor.value, std::cbrt(1.9 * 2.0 * 2.1), 1e-12);
  // The logarithms' standard deviation is 0.05005; t is 4.3027 with two degrees of freedom; divided by the root of 3.
  ASSERT_TRUE(factor.interval);
  EXPECT_NEAR(std::log(factor.interval->high / factor.value), 4.3027 * 0.05005 / std::sqrt(3), 1e-4);
  EXPECT_NEAR(factor.range.low, 1.9, 1e-12);
  EXPECT_NEAR(factor.range.high, 2.1, 1e-12);
  EXPECT_FALSE(factor.is_settled()) << "13% to either side";
  EXPECT_TRUE(factor_of(logs({1.96, 2.0, 2.04})).is_settled());
  EXPECT_FALSE(factor_of(logs({2})).interval);
  EXPECT_FALSE(factor_of(logs({2})).is_settled());
}

TEST(Factor, IsNoMoreCertainThanTheTrialsWithinItsRounds) {
  RoundLogs rounds = logs({2, 2});
  for (auto& [round, one] : rounds) one.variance = 0.0002;
  const Factor factor = factor_of(rounds);
  ASSERT_TRUE(factor.interval);
  EXPECT_NEAR(std::log(factor.interval->high / 2), 1.96 * 0.01, 1e-4);
}

TEST(Factor, HoldsTheTrueOneInNinetyFivePercent) {
  // Rounds with 2% of noise; more rounds are added until it is settled, as climb() does, which must not bias the
  // interval.
  int held = 0, settled = 0;
  constexpr int kTries = 2000;
  for (int i = 0; i < kTries; ++i) {
    std::vector<float> noise(6);
    fill_normal(noise, static_cast<std::uint64_t>(i), 0);
    RoundLogs rounds;
    for (const float one : noise) {
      rounds[std::ssize(rounds)] = {.log = std::log(1.5) + 0.02 * static_cast<double>(one), .variance = 1e-5};
      if (factor_of(rounds).is_settled()) break;
    }
    const Factor factor = factor_of(rounds);
    settled += factor.is_settled() ? 1 : 0;
    held += factor.interval->low <= 1.5 && 1.5 <= factor.interval->high ? 1 : 0;
  }
  EXPECT_GT(settled, 0.99 * kTries);
  EXPECT_GT(held, 0.94 * kTries);
}

TEST(CombinedFactor, CountsWhatItsPartsShareOnce) {
  // Any change of the baseline in a round affects both rungs.
  const RoundLogs lower = logs({2.0, 1.0, 3.0}), upper = logs({4.0, 2.0, 6.0});
  const Factor factor = factor_of(std::vector<Term>{{&upper, 1}, {&lower, -1}});
  EXPECT_NEAR(factor.value, 2, 1e-12);
  EXPECT_NEAR(factor.interval->high, 2, 1e-9);
  EXPECT_EQ(factor.rounds, 3);
}

TEST(CombinedFactor, AddsIntervalsUpWhereRoundsAreNotTheSame) {
  RoundLogs first = logs({2.0, 2.02}), second;
  second[4] = {.log = std::log(3.0), .variance = 0};
  second[5] = {.log = std::log(3.03), .variance = 0};
  const Factor factor = factor_of(std::vector<Term>{{&first, 1}, {&second, 1}});
  EXPECT_NEAR(factor.value, std::sqrt(2.0 * 2.02) * std::sqrt(3.0 * 3.03), 1e-9);
  EXPECT_NEAR(std::log(factor.interval->high / factor.value),
              std::log(factor_of(first).interval->high / factor_of(first).value) +
                  std::log(factor_of(second).interval->high / factor_of(second).value),
              1e-9);
}

Trials trials_of(std::int64_t process, std::int64_t round, std::vector<double> times) {
  Trials trials{.wall_ms = std::move(times), .warmup = 5, .process = process, .round = round, .conditions = {}};
  trials.conditions.preemptions.assign(trials.wall_ms.size(), round);
  return trials;
}

TEST(Visits, ComeBackFromTheSeriesTheyWereJoinedTo) {
  Result result;
  add_visit(result, "step", trials_of(0, 0, {1, 2}));
  add_visit(result, "step", trials_of(0, 1, {3}));
  add_visit(result, "step", trials_of(1, 1, {4, 5}));
  ASSERT_THAT(result.trials, SizeIs(1));
  const TrialSeries& series = result.trials.front();
  EXPECT_THAT(series.time_ms, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(series.round, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(series.process, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_EQ(make_series("step", split_visits(series)), series);
  EXPECT_THAT(split_visits(series).at(2).conditions.preemptions, ElementsAre(1, 1));
}

TEST(Visits, ThatAreLeftOutStandInASeriesOfTheirOwn) {
  Result result;
  for (const std::int64_t round : {0, 1, 2}) {
    add_visit(result, "step", trials_of(0, round, {10.0 + static_cast<double>(round), 20}));
    add_visit(result, "image", trials_of(0, round, {100}));
  }
  leave_out(result, std::vector<VisitId>{{0, 1}});
  EXPECT_THAT(series_of(result, "step").time_ms, ElementsAre(10, 20, 12, 20));
  EXPECT_THAT(series_of(result, "step").round, ElementsAre(0, 0, 2, 2));
  EXPECT_EQ(series_of(result, "step").statistics.n, 4);
  EXPECT_THAT(series_of(result, "step_left_out").time_ms, ElementsAre(11, 20));
  EXPECT_THAT(series_of(result, "step_left_out").conditions.preemptions, ElementsAre(1, 1));
  EXPECT_THAT(series_of(result, "image").time_ms, SizeIs(2));
  EXPECT_THAT(series_of(result, "image_left_out").time_ms, SizeIs(1));
}

// A timed step is one call of the denoiser.
TEST(Visits, CountTheCallsOfTheSampler) {
  Result result;
  result.subject.request = {{"images", 1}, {"steps", 28}};
  EXPECT_EQ(steps_run(result), 28);
  result.configuration.applied = {"fuse", "sampler=heun", "steps=8"};
  EXPECT_EQ(steps_run(result), 15);
  result.configuration.applied = {"sampler=heun:shift=1", "steps=8"};
  EXPECT_EQ(steps_run(result), 15);
  result.configuration.applied = {"sampler=unipc"};
  EXPECT_EQ(steps_run(result), 28);
  result.subject.request["sampler"] = "heun";  // the model's own sampler
  EXPECT_EQ(steps_run(result), 28);
  result.configuration.applied = {};
  EXPECT_EQ(steps_run(result), 55);
}

TEST(Visits, AreDisturbedByOtherWorkAndByTimesThatChangeOnTheWay) {
  Trials quiet = trials_of(0, 0, around(10)), busy = trials_of(0, 1, around(10)), slower = trials_of(0, 2, around(10));
  quiet.conditions = busy.conditions = slower.conditions = {};
  quiet.conditions.waited_ms.assign(20, 0.01);
  busy.conditions.waited_ms.assign(20, 4);
  slower.conditions.waited_ms.assign(20, 0.01);
  for (std::size_t i = 10; i < 20; ++i) slower.wall_ms[i] = 20;
  const TrialSeries series = make_series("step", std::vector{quiet, busy, slower});
  const std::vector<Visit> visits = visits_of(series);
  ASSERT_THAT(visits, SizeIs(3));
  EXPECT_EQ(visits[0].disturbance, "");
  EXPECT_THAT(visits[1].disturbance, HasSubstr("threads waited for one for 40% of a typical step's time"));
  EXPECT_THAT(visits[2].disturbance, HasSubstr("a step took 10.0 ms at first and 20.0 ms later"));
  EXPECT_EQ(visits[2].id, (VisitId{0, 2}));
  const std::vector<Visit> passes = visits_of(make_series("forward", std::vector{busy, slower}));
  EXPECT_THAT(passes[0].disturbance, HasSubstr("40% of a typical pass's time"));
  EXPECT_THAT(passes[1].disturbance, HasSubstr("a pass took 10.0 ms at first"));
}

/// Ten steps of 1 ms in each round, after prologues of these times.
Result with_prologues(const std::vector<std::vector<double>>& by_round) {
  Result result;
  result.subject.request = {{"images", 1}, {"steps", 10}};
  for (std::size_t round = 0; round < by_round.size(); ++round) {
    add_visit(result, "step", trials_of(0, static_cast<std::int64_t>(round), std::vector<double>(20, 1)));
    add_visit(result, "prologue", trials_of(0, static_cast<std::int64_t>(round), by_round[round]));
  }
  return result;
}

TEST(Visits, HaveProloguesOfTheirOwn) {
  const std::vector<Visit> baseline = visits_of(with_prologues({{90}, {90}, {90}}));
  EXPECT_THAT(baseline.at(2).image_ms, Each(100));
  const Factor factor = factor_of(pair_rounds(baseline, visits_of(with_prologues({{40}, {30}}))).all);
  EXPECT_NEAR(factor.range.low, 2.0, 1e-9);
  EXPECT_NEAR(factor.range.high, 2.5, 1e-9);
  EXPECT_FALSE(factor.is_settled()) << "steps agree, and prologues do not";
}

TEST(Visits, VaryAsTheirProloguesDo) {
  const std::vector<double> wide = {60, 70, 80, 90, 100, 110, 120, 130};
  EXPECT_LT(visits_of(with_prologues({std::vector<double>(8, 90)})).at(0).prologue_variance, 1e-12);
  EXPECT_GT(visits_of(with_prologues({wide})).at(0).prologue_variance, std::pow(std::log(130.0 / 80) / 4, 2));
  const std::vector<Visit> baseline = visits_of(with_prologues({wide, wide, wide}));
  const Factor factor = factor_of(pair_rounds(baseline, visits_of(with_prologues({wide, wide}))).all);
  EXPECT_LT(factor.interval->low, 0.9) << "rounds are equal by chance";
}

TEST(Visits, WithoutAPrologueAmongOthersAreRefused) {
  Result result = with_prologues({{90}});
  add_visit(result, "step", trials_of(0, 1, {1}));
  EXPECT_THAT(error_of([&] { static_cast<void>(visits_of(result)); }),
              HasSubstr("round 1 in process 0, and no prologue"));
}

TEST(Visits, OfAStepCacheAreObservedForWholeGenerations) {
  Trials visit = trials_of(0, 0, around(10));
  visit.conditions = {};
  visit.conditions.waited_ms.assign(20, 4);
  Result result;
  result.subject.request = {{"images", 1}, {"steps", 10}};
  add_visit(result, "step", visit);
  EXPECT_THAT(visits_of(result).at(0).disturbance, HasSubstr("40%"));
  result.computed_share = std::vector<double>(10, 0.5);
  EXPECT_EQ(visits_of(result).at(0).disturbance, "") << "4% of the time of ten steps";
}

}  // namespace
}  // namespace headroom
