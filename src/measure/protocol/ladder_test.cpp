#include "measure/protocol/ladder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "measure/probes/machine.hpp"
#include "measure/protocol/unfinished_ladder.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A simulated machine: the time of each rung, how much slower it is in a visit, and which switches decline.
class MadeUpMachine {
 public:
  explicit MadeUpMachine(std::string switches) : ladder(make_ladder(SwitchSet::parse(switches))) {}

  RoundRun run() {
    return [this](Ladder& climbed, std::int64_t round, std::span<const std::size_t> rungs) {
      if (!has_baseline_of_ || *has_baseline_of_ != round) visit(climbed, 0, round);
      for (const std::size_t i : rungs) visit(climbed, i, round);
      visit(climbed, 0, round + 1);
      has_baseline_of_ = round + 1;
    };
  }
  void climb(int rounds = 2, int max_rounds = 6) { headroom::climb(ladder, rounds, max_rounds, run()); }

  Ladder ladder;
  std::map<std::string, double> step_ms = {{"baseline", 100}};  // by rung; 50 for rungs not listed
  std::map<std::int64_t, double> slower = {};                   // by index of the visit
  std::string declines;                                         // name of this switch
  std::string does_not_fit = {};                                // name of this rung
  std::vector<std::string> order;                               // names of the visited rungs
  bool tells_waiting = true;                                    // whether slower visits report waiting threads
  std::int64_t process = 0;
  int stops_after = -1;  // visits

 private:
  void describe(Ladder& climbed, Rung& rung) const {
    rung.result.id = rung.result.name = rung.name;
    rung.result.subject = {.kind = SubjectKind::kModel, .name = "made-up", .request = {{"images", 1}, {"steps", 1}}};
    rung.result.source.version = "1";
    rung.result.configuration.device = "cpu";
    rung.result.memory.emplace().peak_bytes = 1;
    for (const std::string& name : rung.switches.names()) {
      rung.result.configuration.asked.push_back(name);
      if (name == declines)
        rung.result.configuration.declined.push_back({name, "it may not"});
      else
        rung.result.configuration.applied.push_back(name);
    }
    for (const Rung& other : climbed.rungs)
      if (&other != &rung && !other.result.id.empty() && !other.result.same_as &&
          other.result.configuration.applied == rung.result.configuration.applied)
        rung.result.same_as = other.name;
  }

  void visit(Ladder& climbed, std::size_t i, std::int64_t round) {
    if (stops_after >= 0 && std::ssize(order) >= stops_after) throw Interrupt{};
    Rung& rung = climbed.rungs[i];
    if (rung.result.id.empty()) describe(climbed, rung);
    const auto number = std::ssize(order);
    order.push_back(rung.name);
    if (rung.result.same_as) return;
    if (rung.name == does_not_fit) {
      rung.result.memory.reset();
      rung.result.tags.emplace_back(kOutOfMemoryTag);
      rung.result.unsettled = "it needs 3 GiB";
      return;
    }
    const double factor = slower.contains(number) ? slower.at(number) : 1;
    const double ms = (step_ms.contains(rung.name) ? step_ms.at(rung.name) : 50) * factor;
    Trials trials;
    trials.warmup = 5;
    trials.process = process;
    trials.round = round;
    for (int k = 0; k < 20; ++k) {
      trials.wall_ms.push_back(ms * (1 + 0.002 * std::sin(k + static_cast<double>(number))));
      trials.conditions.waited_ms.push_back(factor > 1 && tells_waiting ? 0.5 * ms : 0.0);
    }
    add_visit(rung.result, "step", trials);
  }

 public:
  struct Interrupt {};

 private:
  std::optional<std::int64_t> has_baseline_of_;
};

const Rung& rung_of(const Ladder& ladder, std::string_view name) {
  return *std::ranges::find(ladder.rungs, name, &Rung::name);
}

TEST(Climb, GoesUpAndDownWithTheBaselineAtEveryTurn) {
  MadeUpMachine machine("arena,fuse");
  machine.climb();
  EXPECT_THAT(machine.order, ElementsAre("baseline", "arena", "fuse", "arena+fuse", "baseline", "arena+fuse", "fuse",
                                         "arena", "baseline"));
  for (const Rung& rung : machine.ladder.rungs) EXPECT_FALSE(rung.result.unsettled) << *rung.result.unsettled;
  EXPECT_NEAR(rung_of(machine.ladder, "fuse").on_baseline.value, 2, 0.01);
  EXPECT_NEAR(rung_of(machine.ladder, "arena+fuse").on_before.value, 1, 0.01);
  ASSERT_TRUE(machine.ladder.synergy);
  EXPECT_NEAR(machine.ladder.combined->value, 2, 0.01);
  EXPECT_NEAR(machine.ladder.product_of_singles->value, 4, 0.02);
  EXPECT_NEAR(machine.ladder.synergy->value, 0.5, 0.01);
}

TEST(Climb, VisitsWhatWasDisturbedAgainAndNothingElse) {
  MadeUpMachine machine("arena,fuse");
  machine.slower[2] = 3;  // fuse, in the first round, which goes up
  machine.climb();
  EXPECT_EQ(machine.order.size(), 9U + 2U);
  EXPECT_EQ(machine.order[9], "fuse");
  EXPECT_EQ(machine.order[10], "baseline");
  const Rung& fuse = rung_of(machine.ladder, "fuse");
  EXPECT_FALSE(fuse.result.unsettled);
  EXPECT_NEAR(fuse.on_baseline.value, 2, 0.01);
  EXPECT_NEAR(series_of(fuse.result, "step").statistics.median, 50, 0.2);
  EXPECT_EQ(series_of(fuse.result, "step_left_out").time_ms.size(), 20U);
  EXPECT_THAT(to_table(machine.ladder).text(), HasSubstr("left out:\n  fuse: 1 of 3\n"));
}

TEST(Climb, SeesDisagreementThatNoConditionExplains) {
  MadeUpMachine machine("arena,fuse");
  machine.tells_waiting = false;
  machine.slower[2] = 3;
  machine.climb(2, 2);
  const Rung& fuse = rung_of(machine.ladder, "fuse");
  ASSERT_TRUE(fuse.result.unsettled);
  EXPECT_THAT(*fuse.result.unsettled, HasSubstr("its rounds disagree: 0.66"));
  EXPECT_FALSE(rung_of(machine.ladder, "arena").result.unsettled);
  EXPECT_FALSE(machine.ladder.product_of_singles);
  EXPECT_FALSE(machine.ladder.synergy);
  EXPECT_TRUE(machine.ladder.combined);
}

/// Load during each interval of visits in a climb of two rounds, visible in its conditions or not: results reported
/// as settled are right.
TEST(Climb, NeverTellsAFactorUnderLoadAsSettled) {
  constexpr double kMostWrong = 1.3;
  for (const bool tells_waiting : {true, false})
    for (int begin = 1; begin < 8; ++begin)
      for (int end = begin + 1; end <= 8; ++end) {
        MadeUpMachine machine("arena,fuse");
        machine.tells_waiting = tells_waiting;
        machine.step_ms["fuse"] = 80;
        for (int i = begin; i < end; ++i) machine.slower[i] = 2.5;
        machine.climb();
        for (const Rung& rung : machine.ladder.rungs) {
          if (rung.result.unsettled || rung.switches.empty()) continue;
          const double truth = rung.name == "fuse" ? 1.25 : 2;
          EXPECT_LT(std::max(rung.on_baseline.value / truth, truth / rung.on_baseline.value), kMostWrong)
              << rung.name << " with load from visit " << begin << " to " << end;
        }
      }
}

TEST(Climb, TellsNothingWhereTheMachineIsAlwaysBusy) {
  MadeUpMachine machine("arena");
  for (int i = 0; i < 40; ++i) machine.slower[i] = 2 + 0.1 * (i % 5);
  machine.climb();
  for (const Rung& rung : machine.ladder.rungs) EXPECT_TRUE(rung.result.unsettled) << rung.name;
  EXPECT_EQ(machine.order.size(), 6U + 7U) << "six rounds, and no more";
  const std::string table = to_table(machine.ladder).text();
  EXPECT_THAT(table, AllOf(HasSubstr("baseline ?"), HasSubstr("arena ?"), HasSubstr("unsettled"),
                           HasSubstr("threads waited for one for 50% of a typical step's time")));
  EXPECT_THAT(table, Not(HasSubstr("x  "))) << "no factor is shown: " << table;
}

TEST(LadderTable, MarksUnsettledRungsInTheTableOfStagesToo) {
  MadeUpMachine machine("arena");
  machine.climb();
  for (Rung& rung : machine.ladder.rungs)
    for (const char* const stage : {"encode", "denoise", "decode"}) {
      rung.result.trials.push_back(make_series(stage, Trials{.wall_ms = {1, 2, 3}}));
      rung.result.stages.push_back({.name = stage, .memory_bytes = {}, .weights_bytes = {}, .floor_ms = {}});
    }
  machine.ladder.rungs[1].result.unsettled = "its rounds disagree";
  const std::string table = to_table(machine.ladder).text();
  EXPECT_THAT(table.substr(table.find("stages of a generation")),
              AllOf(HasSubstr("\narena ? "), HasSubstr("\nbaseline  ")));
}

TEST(LadderTable, SaysWhatFewImagesDoNotSettle) {
  MadeUpMachine machine("arena");
  machine.climb();
  Result& arena = machine.ladder.rungs.at(1).result;
  arena.quality = {{.metric = "accuracy", .against = "labels of 20 images", .value = 0.95, .interval = {}, .note = {}}};
  EXPECT_THAT(to_table(machine.ladder).text(),
              HasSubstr("  20 images say little of the accuracy, judge at least 50\n"));
  arena.quality[0].against = "labels of 500 images";
  EXPECT_THAT(to_table(machine.ladder).text(), Not(HasSubstr("--quality")));
}

TEST(Climb, NeedsAMostThatIsNotBelowTheLeast) {
  MadeUpMachine machine("arena");
  EXPECT_THAT(error_of([&] { machine.climb(3, 2); }), HasSubstr("at most 2 rounds were asked for, and 3 at least"));
  EXPECT_THAT(machine.order, IsEmpty());
}

TEST(Climb, DoesNotMeasureWhatDeclines) {
  MadeUpMachine machine("arena,fp8,steps=1");
  machine.declines = "fp8";
  machine.climb();
  EXPECT_EQ(std::ranges::count(machine.order, "fp8"), 1) << "where it turned out to decline";
  const Rung& alone = rung_of(machine.ladder, "fp8");
  EXPECT_EQ(alone.result.same_as, "baseline");
  EXPECT_EQ(alone.result.trials, machine.ladder.rungs.front().result.trials);
  EXPECT_NEAR(alone.on_baseline.value, 1, 1e-12);
  EXPECT_EQ(rung_of(machine.ladder, "arena+fp8").result.same_as, "arena");
  EXPECT_NEAR(machine.ladder.product_of_singles->value, 4, 0.02) << "of arena and steps";
  const std::string table = to_table(machine.ladder).text();
  EXPECT_THAT(table, AllOf(HasSubstr("fp8 (declined)"), HasSubstr("arena (fp8 declined)"),
                           HasSubstr("arena+steps=1 (fp8 declined)"), HasSubstr("  fp8 is baseline\n"),
                           HasSubstr("  arena+fp8 is arena\n")));
  // The file is valid and states it.
  const ResultFile file = results_from_json(to_json(to_results(machine.ladder)), "the ladder");
  EXPECT_EQ(file.results.at(2).same_as, "baseline");
}

TEST(Climb, HasNoFactorsWhereThereIsNothingToCompare) {
  for (const char* switches : {"", "fp8"}) {
    MadeUpMachine machine(switches);
    machine.declines = "fp8";
    machine.climb();
    EXPECT_FALSE(machine.ladder.rungs.front().result.unsettled);
    EXPECT_FALSE(machine.ladder.combined || machine.ladder.product_of_singles || machine.ladder.synergy) << switches;
    EXPECT_THAT(to_table(machine.ladder).text(), Not(HasSubstr("synergy")));
  }
}

TEST(Climb, TakesOverRoundsOfOtherProcesses) {
  Ladder ladder = make_ladder(SwitchSet::parse("arena"));
  climb(ladder, 3, 3, [](Ladder& climbed, std::int64_t round, std::span<const std::size_t> rungs) {
    MadeUpMachine other("arena");
    other.run()(other.ladder, round, rungs);
    add_round(climbed, results_from_json(to_json(to_results(other.ladder)), "a process"), round);
  });
  const TrialSeries& steps = series_of(ladder.rungs[1].result, "step");
  EXPECT_EQ(steps.time_ms.size(), 60U);
  EXPECT_THAT((std::vector{steps.process[0], steps.process[20], steps.process[40]}), ElementsAre(0, 1, 2));
  EXPECT_EQ(steps.round, steps.process);
  EXPECT_EQ(series_of(ladder.rungs[0].result, "step").time_ms.size(), 120U) << "before and after each round";
  EXPECT_FALSE(ladder.rungs[1].result.unsettled);
}

TEST(UnfinishedLadder, GoesOnWhereItWasStopped) {
  const TempFolder folder;
  const UnfinishedLadder unfinished(folder / "unfinished.json", {{"steps", 6}});
  for (int stop = 1; stop < 9; ++stop) {
    MadeUpMachine first("arena,fuse"), second("arena,fuse");
    first.stops_after = stop;
    EXPECT_THROW(first.climb(), MadeUpMachine::Interrupt);
    unfinished.save(first.ladder);
    EXPECT_EQ(unfinished.restore(second.ladder), stop);
    EXPECT_EQ(second.process = next_process(second.ladder), 1);
    second.climb();
    // Every rung is visited twice in all; the baseline once more if the second process needs its own visit.
    for (const char* rung : {"arena", "fuse", "arena+fuse"}) {
      EXPECT_EQ(std::ranges::count(first.order, rung) + std::ranges::count(second.order, rung), 2) << rung << stop;
      EXPECT_FALSE(rung_of(second.ladder, rung).result.unsettled) << *rung_of(second.ladder, rung).result.unsettled;
    }
    unfinished.finish();
    EXPECT_EQ(unfinished.restore(second.ladder), 0);
  }
}

TEST(UnfinishedLadder, RefusesAnotherLadder) {
  const TempFolder folder;
  MadeUpMachine machine("arena");
  machine.stops_after = 2;
  EXPECT_THROW(machine.climb(), MadeUpMachine::Interrupt);
  UnfinishedLadder(folder / "unfinished.json", {{"steps", 6}, {"seed", 1}}).save(machine.ladder);
  Ladder ladder = make_ladder(SwitchSet::parse("arena"));
  EXPECT_THAT(error_of([&] {
                (void)UnfinishedLadder(folder / "unfinished.json", {{"steps", 8}, {"seed", 1}}).restore(ladder);
              }),
              AllOf(HasSubstr("unfinished.json holds another ladder"), HasSubstr("remove it"),
                    HasSubstr("steps: 8 against 6"), Not(HasSubstr("seed"))));
}

TEST(Climb, GoesOnWhereARungDoesNotFit) {
  MadeUpMachine machine("arena,fuse,hoist");
  machine.does_not_fit = "arena+fuse";
  machine.climb();
  EXPECT_EQ(std::ranges::count(machine.order, "arena+fuse"), 1) << "it will not fit in the next round either";
  const Rung& rung = rung_of(machine.ladder, "arena+fuse");
  EXPECT_TRUE(is_out_of_memory(rung.result));
  EXPECT_EQ(rung.on_baseline.rounds, 0);
  const Rung& above = rung_of(machine.ladder, "arena+fuse+hoist");
  EXPECT_NEAR(above.on_baseline.value, 2, 0.01);
  EXPECT_EQ(above.on_before.rounds, 0) << "there is nothing before it";
  ASSERT_TRUE(machine.ladder.synergy) << "all together and each alone are there";

  const std::string table = to_table(machine.ladder).text();
  EXPECT_THAT(table, HasSubstr("out of memory"));
  EXPECT_THAT(table, HasSubstr("not measured, because there is too little memory:\n  arena+fuse: it needs 3 GiB\n"));
  EXPECT_THAT(table, Not(HasSubstr("too noisy to report")));
  const ResultFile file = to_results(machine.ladder);
  const ResultFile back = results_from_json(to_json(file), "test");
  EXPECT_EQ(back.results, file.results);

  MadeUpMachine last("arena,fuse");
  last.does_not_fit = "arena+fuse";
  last.climb();
  EXPECT_FALSE(last.ladder.combined) << "all together were not measured";
  EXPECT_FALSE(last.ladder.synergy);
}

TEST(RunRoundsHere, RecordsARungThatDoesNotFit) {
  LimitedBackend backend(std::size_t{1} << 40);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(std::string(kSourceDir) + "/models/fashion-flux");
  LadderOptions options;
  options.request.images = 1;
  options.request.token_rows = options.request.token_columns = 2;
  options.request.steps = 2;
  options.min_trials = 4;
  Ladder ladder = make_ladder(SwitchSet::parse("hoist"));
  const RoundRun run =
      run_rounds_here(*pipeline, backend, options, 0, {.on_visited = [&] { backend.set_limit(std::size_t{1} << 20); }});
  EXPECT_THROW(run(ladder, 0, std::vector<std::size_t>{1}), OutOfMemory) << "the baseline that comes after it";
  const Result& result = ladder.rungs[1].result;
  EXPECT_TRUE(is_out_of_memory(result));
  EXPECT_EQ(result.id, "hoist");
  EXPECT_THAT(result.configuration.applied, ElementsAre("hoist"));
  EXPECT_THAT(result.unsettled.value_or(""),
              AllOf(HasSubstr("fashion-flux does not fit"), Not(HasSubstr("would fit"))));
}

TEST(RunRoundsHere, TellsHowManyStepsAVisitTakesAndWhatDeclines) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(std::string(kSourceDir) + "/models/fashion-flux");
  LadderOptions options;
  options.request.images = 1;
  options.request.token_rows = options.request.token_columns = 2;
  options.request.steps = 2;
  options.min_trials = 4;  // after 5 of warm-up
  std::map<std::string, LadderProgress> last;
  Ladder ladder = make_ladder(SwitchSet::parse("arena,fp8"));
  const RoundRun run = run_rounds_here(*pipeline, *backend, options, 3,
                                       {.on_progress = [&](const LadderProgress& at) { last[at.rung] = at; }});
  run(ladder, 0, std::vector<std::size_t>{1, 2, 3});
  ASSERT_EQ(last.size(), 2U) << "fp8 is not measured on a CPU";
  for (const auto& [rung, at] : last) {
    EXPECT_EQ(at.steps_total, 10) << "9 steps, in whole generations of 2";
    EXPECT_EQ(at.steps_done, at.steps_total) << rung;
  }
  EXPECT_EQ(ladder.rungs[2].result.same_as, "baseline");
  EXPECT_EQ(ladder.rungs[2].result.quality.at(0).note, "identical");
  EXPECT_EQ(ladder.rungs[3].result.same_as, "arena");
  const TrialSeries& steps = series_of(ladder.rungs[0].result, "step");
  EXPECT_THAT(steps.round, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_EQ(steps.process.front(), 3);
}

TEST(LadderTable, SaysWhereTimesAndFactorsDiffer) {
  MadeUpMachine machine("arena,fuse");
  machine.climb();
  EXPECT_THAT(to_table(machine.ladder).text(), Not(HasSubstr("quotient of the times")));
  machine.ladder.rungs[1].image_ms /= 2;
  EXPECT_THAT(
      to_table(machine.ladder).text(),
      HasSubstr("\nfactors compare each round with the baseline around it, times are of all rounds; the quotient of "
                "the times differs for arena (4.00x)\n"));
}

TEST(LadderTable, ShowsTheBaselineAsItself) {
  MadeUpMachine machine("arena");
  machine.climb();
  EXPECT_THAT(to_table(machine.ladder).text(), testing::ContainsRegex("\nbaseline .* - +baseline +- "));
}

}  // namespace
}  // namespace headroom
