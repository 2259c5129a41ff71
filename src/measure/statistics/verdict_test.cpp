#include "measure/statistics/verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "base/error.hpp"

namespace headroom {
namespace {

using ::testing::HasSubstr;

Effect effect_of(double ratio, double low, double high) {
  return {.ratio = ratio,
          .interval = Interval{low, high},
          .p = 0.001,
          .base_processes = 8,
          .new_processes = 8,
          .paired = true};
}

TEST(Verdict, NeedsIntervalEvidenceAndEffectToRegress) {
  EXPECT_EQ(judge_effect(effect_of(1.07, 1.02, 1.12), 0.001).verdict, Verdict::kRegressed);
  EXPECT_EQ(judge_effect(effect_of(1.07, 0.99, 1.12), 0.001).verdict, Verdict::kInconclusive);
  EXPECT_EQ(judge_effect(effect_of(1.07, 1.02, 1.12), 0.05).verdict, Verdict::kInconclusive);
  EXPECT_EQ(judge_effect(effect_of(1.049, 1.02, 1.12), 0.001).verdict, Verdict::kInconclusive);
  EXPECT_EQ(judge_effect(effect_of(1.049, 1.02, 1.12), 0.001, {.threshold = 0.04}).verdict, Verdict::kRegressed);
}

TEST(Verdict, ImprovesByTheSameFactor) {
  EXPECT_EQ(judge_effect(effect_of(1 / 1.07, 0.9, 0.98), 0.001).verdict, Verdict::kImproved);
  EXPECT_EQ(judge_effect(effect_of(1 / 1.04, 0.9, 0.98), 0.001).verdict, Verdict::kOk);
  EXPECT_EQ(judge_effect(effect_of(1 / 1.07, 0.9, 1.01), 0.001).verdict, Verdict::kOk);
}

TEST(Verdict, IsOkOnlyWhereARegressionIsRuledOut) {
  EXPECT_EQ(judge_effect(effect_of(1.02, 1.01, 1.049), 0.001).verdict, Verdict::kOk);
  EXPECT_EQ(judge_effect(effect_of(1.02, 0.98, 1.05), 0.4).verdict, Verdict::kInconclusive);
}

TEST(Verdict, SaysWhy) {
  EXPECT_EQ(judge_effect(effect_of(1.07, 1.02, 1.12), 0.001).why, "7.0% slower, at least 2.0% slower");
  EXPECT_EQ(judge_effect(effect_of(1.02, 0.98, 1.06), 0.4).why, "anything from 2.0% faster to 6.0% slower is possible");
  EXPECT_THAT(judge_effect(effect_of(1.07, 1.02, 1.12), 0.06).why, HasSubstr("p is not below 0.05"));
  EXPECT_THAT(judge_effect(effect_of(1.03, 1.01, 1.06), 0.01).why, HasSubstr("but 6.0% slower is possible"));
  EXPECT_THAT(judge_effect(effect_of(1, 0.99, 1.01), 1).why, HasSubstr("ruled out: at most 1.0% slower"));
}

TEST(Verdict, IsInconclusiveWithoutAnInterval) {
  const Judged few = judge_effect(
      {.ratio = 2, .interval = {}, .p = 0.1, .base_processes = 3, .new_processes = 3, .paired = true}, 0.1);
  EXPECT_EQ(few.verdict, Verdict::kInconclusive);
  EXPECT_THAT(few.why, HasSubstr("3 pairs of processes are too few"));
  const Judged single =
      judge_effect({.ratio = 2, .interval = {}, .p = 1, .base_processes = 1, .new_processes = 1, .paired = false}, 1);
  EXPECT_EQ(single.verdict, Verdict::kInconclusive);
  EXPECT_THAT(single.why, HasSubstr("one process on each side"));
}

TEST(Verdict, SaysWhatWidensTheInterval) {
  Effect wide = effect_of(1.02, 0.9, 1.2);
  wide.limit = "processes drift in the order they were measured";
  EXPECT_EQ(judge_effect(wide, 0.4).why,
            "anything from 10.0% faster to 20.0% slower is possible: processes drift in the order they were measured");
  wide.interval.reset();
  EXPECT_EQ(judge_effect(wide, 0.4).why, wide.limit);
}

TEST(Verdict, RefusesASenselessThreshold) {
  EXPECT_THROW((void)judge_effect(effect_of(1, 1, 1), 1, {.threshold = 0}), Error);
  EXPECT_THROW((void)judge_effect(effect_of(1, 1, 1), 1, {.threshold = -0.05}), Error);
}

TEST(Settled, WantsAClearDifferenceOrNone) {
  const auto settled = [](const Effect& effect) { return is_settled(effect, judge_effect(effect, effect.p)); };
  EXPECT_TRUE(settled(effect_of(1, 0.99, 1.01)));
  EXPECT_FALSE(settled(effect_of(0.97, 0.93, 1.01)));
  EXPECT_TRUE(settled(effect_of(1.2, 1.06, 1.3)));
  EXPECT_FALSE(settled(effect_of(1.2, 1.04, 1.3)));
  EXPECT_TRUE(settled(effect_of(0.8, 0.7, 0.94)));
  EXPECT_FALSE(settled(effect_of(0.8, 0.7, 0.96)));
  EXPECT_FALSE(settled(effect_of(1.02, 0.98, 1.06)));
}

/// Base and new processes in pairs: first 8 pairs, then 16 and 32 if those do not settle it, as `bench --against`
/// runs them. Processes differ by `noise`; within one, trials differ by 1% and one in 20 is slow by 30%.
class SimulatedComparison {
 public:
  explicit SimulatedComparison(double noise) : noise_(noise) {}
  Verdict run(double factor) {
    ProcessTrials base, changed;
    for (std::size_t pairs = 8;; pairs *= 2) {
      while (base.size() < pairs) {
        base.push_back(process(1));
        changed.push_back(process(factor));
      }
      const Effect effect = paired_effect(base, changed, {.resamples = 400});  // few, to keep the test fast
      const Judged judged = judge_effect(effect, effect.p);
      if (pairs == 32 || is_settled(effect, judged)) return judged.verdict;
    }
  }
  /// The number of `runs` that end in that verdict.
  int count(int runs, double factor, Verdict verdict) {
    int found = 0;
    for (int i = 0; i < runs; ++i) found += run(factor) == verdict ? 1 : 0;
    return found;
  }

 private:
  std::vector<double> process(double factor) {
    const double level = factor * std::exp(noise_ * normal_(engine_));
    std::vector<double> trials(20);
    for (double& trial : trials) trial = level * std::exp(0.01 * normal_(engine_)) * (engine_() % 20 == 0 ? 1.3 : 1);
    return trials;
  }
  std::mt19937_64 engine_{20240607};
  std::normal_distribution<double> normal_;
  double noise_;
};

TEST(Simulated, SlowdownOfSevenPercentIsFound) {
  EXPECT_GE(SimulatedComparison(0.02).count(1000, 1.07, Verdict::kRegressed), 960);
}

TEST(Simulated, SlowdownOfTwoPercentNeverPassesForFive) {
  EXPECT_EQ(SimulatedComparison(0.01).count(1000, 1.02, Verdict::kRegressed), 0);
  EXPECT_EQ(SimulatedComparison(0.02).count(1000, 1.02, Verdict::kRegressed), 0);
}

TEST(Simulated, EqualBuildsAreRarelyFoundDifferent) {
  SimulatedComparison comparison(0.03);
  int differ = 0;
  for (int i = 0; i < 1000; ++i) {
    const Verdict verdict = comparison.run(1);
    differ += verdict == Verdict::kRegressed || verdict == Verdict::kImproved ? 1 : 0;
  }
  EXPECT_LE(differ, 5);
}

TEST(Simulated, EqualBuildsAreOkWhereNoiseIsSmall) {
  EXPECT_GE(SimulatedComparison(0.01).count(200, 1, Verdict::kOk), 198);
}

}  // namespace
}  // namespace headroom
