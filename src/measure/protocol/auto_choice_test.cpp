#include "measure/protocol/auto_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "passes/step_caches/step_cache_options.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Every switch multiplies the time by its factor, with a spread of 2% from trial to trial.
class FakeBench : public AutoBench {
 public:
  std::vector<Declined> build(const SwitchSet& set, const SwitchSet&) override {
    built.push_back(set.to_string());
    if (refuses && refuses(set)) fail("cannot combine {}", set.to_string());
    if (too_large && too_large(set)) throw OutOfMemory("it needs 3 GiB");
    std::vector<Declined> all;
    for (const auto& [name, reason] : declines)
      if (set.has(name)) all.push_back({name, reason});
    return all;
  }
  double error(const SwitchSet& set) override {
    double sum = 0;
    for (const auto& [name, error] : errors)
      if (set.has(name)) sum += error;
    return sum;
  }
  std::vector<std::string> cheaper_loops() override { return loops; }
  Loss loss(const SwitchSet& set, const SwitchSet& current) override {
    EXPECT_FALSE(has_step_cache(current) || current.has("steps"));
    now_ms += 1000 * judged_seconds;
    if (refuses_to_judge && refuses_to_judge(set)) fail("an image is not finite");
    for (const auto& [name, error] : errors)
      if (set.to_string().ends_with(name)) return {.value = error, .what = "what it makes"};
    return {.value = 0, .what = "what it makes"};
  }
  PairedTimes time(const SwitchSet& a, const SwitchSet& b, double seconds) override {
    EXPECT_GE(seconds, 0);
    now_ms += 1000 * seconds_each;
    return {times(a), times(b)};
  }
  double operator()() const { return now_ms; }

  std::map<std::string, double> factors = {{"arena", 0.8}, {"fuse", 0.9}, {"hoist", 0.95}, {"bf16", 0.5}};
  std::map<std::string, double> errors = {{"bf16", 3e-3}};
  std::map<std::string, std::string> declines;
  std::function<bool(const SwitchSet&)> refuses;
  std::function<bool(const SwitchSet&)> too_large;
  std::function<double(const SwitchSet&)> extra_factor;
  std::vector<std::string> built;
  std::vector<std::string> loops;
  double now_ms = 0;
  double seconds_each = 0.5;
  double judged_seconds = 0;
  std::function<bool(const SwitchSet&)> refuses_to_judge;

 private:
  std::vector<double> times(const SwitchSet& set) const {
    double ms = 100;
    for (const auto& [name, factor] : factors)
      if (set.has(name)) ms *= factor;
    if (extra_factor) ms *= extra_factor(set);
    std::vector<double> all;
    for (int i = 0; i < 10; ++i) all.push_back(ms * (1 + 0.002 * (i % 5 - 2)));
    return all;
  }
};

AutoChoice choose(FakeBench& bench, std::string_view fixed = "", const AutoLimits& limits = {}) {
  return choose_switches(bench, SwitchSet::parse(fixed), limits, [&] { return bench.now_ms; });
}

const AutoTrial& trial_of(const AutoChoice& choice, std::string_view name) {
  const auto found = std::ranges::find(choice.trials, name, &AutoTrial::switch_name);
  EXPECT_NE(found, choice.trials.end()) << name;
  return found == choice.trials.end() ? choice.trials.front() : *found;
}

SwitchSet exact_switches() { return SwitchSet::parse("lossless"); }

TEST(AutoChoice, TriesWhatFitsInMemory) {
  FakeBench bench;
  bench.too_large = [](const SwitchSet& set) { return !set.has("flash") || set.has("bf16"); };
  const AutoChoice choice = choose(bench);
  EXPECT_EQ(choice.switches.to_string(), exact_switches().to_string());
  EXPECT_EQ(trial_of(choice, "flash").why, "without it there is too little memory");
  EXPECT_TRUE(trial_of(choice, "flash").kept);
  EXPECT_EQ(trial_of(choice, "bf16").why, "there is too little memory to hold it against the baseline");
  EXPECT_FALSE(trial_of(choice, "bf16").kept);
}

TEST(AutoChoice, KeepsAllThatPays) {
  FakeBench bench;
  const AutoChoice choice = choose(bench);
  EXPECT_EQ(choice.switches.to_string(), exact_switches().with(SwitchSet::parse("bf16")).to_string());
  const AutoTrial& bf16 = trial_of(choice, "bf16");
  EXPECT_TRUE(bf16.kept);
  EXPECT_NEAR(bf16.factor.value(), 2, 0.02);
  EXPECT_NEAR(bf16.without_ms.value() / bf16.with_ms.value(), 2, 0.02);
  EXPECT_EQ(bf16.error, 3e-3);
  EXPECT_EQ(trial_of(choice, "arena").why, "it pays");
}

TEST(AutoChoice, LeavesPrecisionAloneWhereItIsSlowerOrNoFaster) {
  for (const double factor : {1.3, 1.0, 0.995}) {
    FakeBench bench;
    bench.factors["bf16"] = factor;
    const AutoChoice choice = choose(bench);
    EXPECT_FALSE(choice.switches.has("bf16")) << factor;
    EXPECT_EQ(trial_of(choice, "bf16").why, factor > 1.1 ? "it is slower" : "no certain difference of over 1%");
  }
}

/// Models bf16 on a CPU without AMX: its GEMMs are slower than those in f32, but together with int8 it saves bytes.
TEST(AutoChoice, TriesAgainWhatMayPayWithAnother) {
  FakeBench bench;
  bench.factors["bf16"] = 1;
  bench.factors["int8"] = 0.5;
  bench.extra_factor = [](const SwitchSet& set) { return !set.has("bf16") ? 1.0 : set.has("int8") ? 0.8 : 1.3; };
  const AutoChoice choice = choose(bench);
  EXPECT_EQ(choice.switches.to_string(), exact_switches().with(SwitchSet::parse("bf16,int8")).to_string());
  EXPECT_EQ(trial_of(choice, "bf16").why, "it is slower") << "the first time";
}

TEST(AutoChoice, DropsAnExactSwitchOnlyWhereItIsSlower) {
  FakeBench bench;
  bench.factors["fuse"] = 1.2;
  bench.factors["hoist"] = 1.0;
  const AutoChoice choice = choose(bench);
  EXPECT_FALSE(choice.switches.has("fuse"));
  EXPECT_TRUE(choice.switches.has("hoist"));
  EXPECT_THAT(trial_of(choice, "hoist").why, HasSubstr("and it is exact"));
}

TEST(AutoChoice, RefusesAnErrorOverTheLimitWithoutTimingIt) {
  for (const double error : {0.06, std::numeric_limits<double>::quiet_NaN()}) {
    FakeBench bench;
    bench.errors["bf16"] = error;
    const AutoChoice choice = choose(bench);
    EXPECT_FALSE(choice.switches.has("bf16"));
    EXPECT_EQ(trial_of(choice, "bf16").why, std::isnan(error) ? "its error is not finite" : "its error is over 0.05");
    EXPECT_FALSE(trial_of(choice, "bf16").factor.has_value());
  }
  FakeBench bench;
  bench.errors["bf16"] = 0.06;
  EXPECT_TRUE(choose(bench, "", {.max_error = 0.1}).switches.has("bf16"));
}

TEST(AutoChoice, LeavesOutWhatDeclinesAndSaysWhy) {
  FakeBench bench;
  bench.declines = {{"hoist", "there is no loop"}, {"bf16", "there are no units"}};
  const AutoChoice choice = choose(bench);
  EXPECT_EQ(choice.switches.to_string(), exact_switches().without("hoist").to_string());
  EXPECT_EQ(trial_of(choice, "hoist").why, "declined: there is no loop");
  EXPECT_EQ(trial_of(choice, "bf16").why, "declined: there are no units");
}

TEST(AutoChoice, DropsWhatCannotBeCombined) {
  FakeBench bench;
  bench.refuses = [](const SwitchSet& set) { return set.has("bf16"); };
  EXPECT_THAT(trial_of(choose(bench), "bf16").why, HasSubstr("cannot combine"));
}

TEST(AutoChoice, NeverTouchesWhatIsFixed) {
  FakeBench bench;
  bench.factors["bf16"] = 3;
  const AutoChoice choice = choose(bench, "bf16,steps=4");
  EXPECT_TRUE(choice.switches.has("bf16"));
  EXPECT_EQ(choice.switches.number("steps"), 4);
  for (const AutoTrial& trial : choice.trials) EXPECT_NE(trial.switch_name, "bf16");
}

TEST(AutoChoice, AsksAgainAfterTheSetHasChanged) {
  FakeBench bench;
  bench.factors["fuse"] = 1.2;
  bench.factors["bf16"] = 1.0;
  // bf16 pays only without fuse, which the first round does not know when it tries bf16.
  bench.extra_factor = [](const SwitchSet& set) { return set.has("bf16") && !set.has("fuse") ? 0.5 : 1.0; };
  const AutoChoice choice = choose(bench);
  EXPECT_FALSE(choice.switches.has("fuse"));
  EXPECT_TRUE(choice.switches.has("bf16"));
}

TEST(AutoChoice, StopsWhenTheTimeIsUpAndSaysWhatWasNotTried) {
  FakeBench bench;
  bench.seconds_each = 7;
  const AutoChoice choice = choose(bench);
  EXPECT_LE(bench.now_ms, 14'000);
  const auto untried = std::ranges::count_if(
      choice.trials, [](const AutoTrial& trial) { return trial.why == "not tried: the 10 s were over"; });
  EXPECT_EQ(static_cast<std::size_t>(untried), choice.trials.size() - 2);
  EXPECT_TRUE(choice.switches.has("fuse")) << "what was not tried stays as it was";
}

/// The chosen loop is the first that keeps within the limit and pays, given all earlier choices.
TEST(AutoChoice, TakesAStepCacheWithinTheLimitOfARequest) {
  FakeBench bench;
  bench.loops = {"fbcache=0.3", "meancache=14", "fbcache=0.1", "fbcache=0.05"};
  bench.factors["fbcache"] = 0.6;
  bench.errors["fbcache=0.3"] = 0.2;
  bench.errors["fbcache=0.1"] = 0.04;
  bench.declines = {{"meancache", "there is no loop"}};
  bench.extra_factor = [](const SwitchSet& set) { return set.argument("fbcache") == "0.05" ? 1.2 : 1.0; };
  EXPECT_FALSE(has_step_cache(choose(bench).switches)) << "nobody said how much a request may change";

  const AutoChoice choice = choose(bench, "", {.max_request_error = 0.05});
  EXPECT_EQ(choice.switches.to_string(), exact_switches().with(SwitchSet::parse("bf16,fbcache=0.1")).to_string());
  EXPECT_EQ(trial_of(choice, "fbcache=0.3").why, "what it makes is over 0.05");
  EXPECT_EQ(trial_of(choice, "fbcache=0.3").error, 0.2);
  EXPECT_EQ(trial_of(choice, "meancache=14").why, "declined: there is no loop");
  EXPECT_TRUE(trial_of(choice, "fbcache=0.1").kept);
  EXPECT_EQ(trial_of(choice, "fbcache=0.1").why, "it pays, and what it makes is within 0.05");
  EXPECT_EQ(trial_of(choice, "fbcache=0.1").error, 0.04);
  EXPECT_EQ(std::ranges::find(choice.trials, "fbcache=0.05", &AutoTrial::switch_name), choice.trials.end());
}

TEST(AutoChoice, TakesTheBetterOfLoopsThatAreAsFast) {
  FakeBench bench;
  bench.loops = {"sampler=unipc,steps=7", "sampler=dpm++2m,steps=7", "sampler=unipc,steps=14", "meancache=14"};
  bench.extra_factor = [](const SwitchSet& set) {
    return set.argument("steps") == "7" ? 0.3 : set.has("steps") ? 0.6 : 1.0;
  };
  bench.errors["sampler=unipc,steps=7"] = 0.04;
  bench.errors["sampler=dpm++2m,steps=7"] = 0.01;
  const AutoLimits limits{.max_request_error = 0.05};
  const AutoChoice choice = choose(bench, "", limits);
  EXPECT_EQ(choice.switches.argument("sampler"), "dpm++2m");
  EXPECT_FALSE(trial_of(choice, "sampler=unipc,steps=7").kept);
  EXPECT_EQ(trial_of(choice, "sampler=unipc,steps=7").why,
            "it pays, and what it makes is within 0.05, but sampler=dpm++2m,steps=7 is as fast and loses less");
  EXPECT_TRUE(trial_of(choice, "sampler=dpm++2m,steps=7").kept);
  EXPECT_EQ(std::ranges::find(choice.trials, "sampler=unipc,steps=14", &AutoTrial::switch_name), choice.trials.end())
      << "a slower loop is not judged";

  bench.errors["sampler=dpm++2m,steps=7"] = 0.038;  // better by no more than a tenth of the limit
  EXPECT_EQ(choose(bench, "", limits).switches.argument("sampler"), "unipc");
}

/// Fewer steps of another sampler are two switches, which are chosen together or not at all; a loss may be negative.
TEST(AutoChoice, TakesFewerStepsOfABetterSamplerWithinTheLimit) {
  FakeBench bench;
  bench.loops = {"sampler=unipc,steps=7", "sampler=dpm++2m,steps=7", "sampler=unipc,steps=9", "meancache=14"};
  bench.factors["steps"] = 0.4;
  bench.errors["sampler=unipc,steps=7"] = std::numeric_limits<double>::quiet_NaN();
  bench.errors["sampler=unipc,steps=9"] = -0.03;
  bench.declines = {{"sampler", "there is none"}};
  const AutoLimits limits{.max_request_error = 0.05};
  const AutoChoice declined = choose(bench, "", limits);
  EXPECT_EQ(declined.switches.argument("steps"), std::nullopt);
  EXPECT_EQ(trial_of(declined, "sampler=unipc,steps=9").why, "declined: there is none");

  bench.declines.clear();
  bench.errors["sampler=dpm++2m,steps=7"] = 0.051;
  const AutoChoice choice = choose(bench, "", limits);
  EXPECT_EQ(choice.switches.to_string(),
            exact_switches().with(SwitchSet::parse("bf16,sampler=unipc,steps=9")).to_string());
  EXPECT_EQ(trial_of(choice, "sampler=unipc,steps=7").why, "what it makes is not finite");
  EXPECT_EQ(trial_of(choice, "sampler=dpm++2m,steps=7").why, "what it makes is over 0.05");
  EXPECT_EQ(trial_of(choice, "sampler=unipc,steps=9").error, -0.03);
  EXPECT_FALSE(has_step_cache(choice.switches)) << "the first that pays is taken, and no other";
}

/// A trial that has begun is finished: judging the output of a loop may take longer than the whole time limit.
TEST(AutoChoice, FinishesTheLoopThatItJudgesWhenTheTimeIsUp) {
  FakeBench bench;
  bench.loops = {"meancache=7", "meancache=9"};
  bench.factors["meancache"] = 0.4;
  bench.judged_seconds = 1000;
  const AutoLimits limits{.seconds = 100, .max_request_error = 0.05};
  EXPECT_EQ(choose(bench, "", limits).switches.argument("meancache"), "7");
  bench.now_ms = 0;
  bench.errors["meancache=7"] = 0.1;
  const AutoChoice choice = choose(bench, "", limits);
  EXPECT_FALSE(has_step_cache(choice.switches));
  EXPECT_EQ(trial_of(choice, "meancache=9").why, "not tried: the 100 s were over");
  EXPECT_THAT(to_table(choice).text(), AllOf(HasSubstr("  not tried: "), Not(HasSubstr("dropped: not tried"))));
}

TEST(AutoChoice, GoesOnBehindALoopThatCannotBeJudged) {
  FakeBench bench;
  bench.loops = {"meancache=7", "meancache=9"};
  bench.factors["meancache"] = 0.4;
  bench.refuses_to_judge = [](const SwitchSet& set) { return set.argument("meancache") == "7"; };
  const AutoChoice choice = choose(bench, "", {.max_request_error = 0.05});
  EXPECT_EQ(trial_of(choice, "meancache=7").why, "an image is not finite");
  EXPECT_EQ(choice.switches.argument("meancache"), "9");
}

TEST(AutoChoice, LeavesAStepCacheThatDoesNotPayOrIsGiven) {
  FakeBench bench;
  bench.loops = {"fbcache=0.1"};
  bench.factors["fbcache"] = 1.01;
  const AutoLimits limits{.max_request_error = 0.05};
  EXPECT_FALSE(has_step_cache(choose(bench, "", limits).switches));
  const AutoChoice choice = choose(bench, "fbcache=0.2", limits);
  EXPECT_EQ(choice.switches.argument("fbcache"), "0.2");
  EXPECT_EQ(std::ranges::find(choice.trials, "fbcache=0.1", &AutoTrial::switch_name), choice.trials.end());
}

TEST(AutoChoice, TheTableHasARowForEveryTrial) {
  FakeBench bench;
  bench.declines = {{"hoist", "there is no loop"}};
  const AutoChoice choice = choose(bench);
  const std::string table = to_table(choice).text();
  EXPECT_THAT(table, AllOf(HasSubstr("  declined: there is no loop"), Not(HasSubstr("dropped: declined"))));
  EXPECT_THAT(table, HasSubstr("  0.00300  "));
  EXPECT_EQ(std::ranges::count(table, '\n'), static_cast<std::ptrdiff_t>(choice.trials.size()) + 2);
}

}  // namespace
}  // namespace headroom
