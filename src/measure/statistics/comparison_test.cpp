#include "measure/statistics/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text/json.hpp"

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

/// Six trials around `median_ms` for each process, processes within 0.7% of each other.
TrialSeries series(const std::string& what, double median_ms, std::int64_t processes) {
  std::vector<Trials> trials;
  for (std::int64_t process = 0; process < processes; ++process) {
    const double level = median_ms * (1 + 0.001 * static_cast<double>(process % 8));
    trials.push_back({.wall_ms = {level, 1.01 * level, 0.99 * level, level, level, level}, .process = process});
  }
  return make_series(what, trials);
}

Result result(const std::string& name, double median_ms, std::int64_t processes) {
  return {.id = name,
          .name = name,
          .subject = {.kind = SubjectKind::kModel, .name = "m", .request = {{"batch", 1}}},
          .source = {},
          .configuration =
              {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = {}, .baseline_dtype = {}},
          .trials = {series("forward", median_ms, processes)},
          .memory = {},
          .quality = {},
          .tags = {},
          .plan = {}};
}

ResultFile file(std::vector<Result> results) {
  ResultFile file;
  file.machine.cpu = "Xeon";
  file.machine.build = BuildInfo{.version = "1", .git_revision = "abc", .type = "Release", .compiler = "gcc 12"};
  file.results = std::move(results);
  return file;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Compare, JudgesEveryBenchmark) {
  const Comparison comparison =
      compare_results(file({result("same", 10, 8), result("slow", 10, 8), result("fast", 10, 8)}),
                      file({result("slow", 12, 8), result("fast", 8, 8), result("same", 10, 8)}));
  ASSERT_EQ(comparison.benchmarks.size(), 3U);
  EXPECT_EQ(comparison.benchmarks[0].name, "m same");
  EXPECT_EQ(comparison.benchmarks[0].judged.verdict, Verdict::kOk);
  EXPECT_EQ(comparison.benchmarks[1].judged.verdict, Verdict::kRegressed);
  EXPECT_NEAR(comparison.benchmarks[1].effect.ratio, 1.2, 1e-9);
  EXPECT_EQ(comparison.benchmarks[2].judged.verdict, Verdict::kImproved);
  EXPECT_EQ(exit_code_of(comparison), ExitCode::kRegression);
  EXPECT_FALSE(comparison.benchmarks[0].effect.paired);
}

/// Makes the threads of every trial wait for a CPU during 40% of its time.
Result disturbed(Result one) {
  TrialSeries& series = one.trials.front();
  series.conditions.waited_ms = series.time_ms;
  for (double& ms : series.conditions.waited_ms) ms *= 0.4;
  return one;
}

TEST(Compare, ClaimsNothingOfUnsettledTimes) {
  for (const double new_ms : {8.0, 10.0, 12.0}) {
    const Comparison comparison =
        compare_results(file({result("a", 10, 8)}), file({disturbed(result("a", new_ms, 8))}));
    EXPECT_EQ(comparison.benchmarks[0].judged.verdict, Verdict::kInconclusive) << new_ms;
    EXPECT_THAT(comparison.benchmarks[0].judged.why,
                HasSubstr("the new is unsettled: other work held the CPUs: threads waited for one for 40%"));
    EXPECT_EQ(exit_code_of(comparison), ExitCode::kInconclusive);
    EXPECT_FALSE(is_settled(comparison)) << "more processes are run";
  }
  Result rung = result("a", 10, 8);
  rung.unsettled = "its rounds disagree";
  const Comparison comparison = compare_results(file({rung}), file({result("a", 12, 8)}));
  EXPECT_EQ(comparison.benchmarks[0].judged.why, "the base is unsettled: its rounds disagree");
}

TEST(Compare, ClaimsNothingOfTheTailOfUnsettledTimes) {
  const auto with_p99 = [](double ms) {
    Result one = result("a", ms, 8);
    Trials many;
    for (int i = 0; i < 400; ++i) many.wall_ms.push_back(ms * (1 + 0.001 * (i % 7)));
    one.trials = {make_series("forward", many)};
    return one;
  };
  ComparisonOptions options;
  options.process_noise = 0.001;
  options.limits.set(Quantity::kP99, 0.1);
  const Comparison comparison = compare_results(file({with_p99(10)}), file({disturbed(with_p99(10))}), options);
  const std::vector<ComparedQuantity>& quantities = comparison.benchmarks[0].quantities;
  ASSERT_EQ(quantities.front().quantity, Quantity::kP99);
  EXPECT_THAT(quantities.front().judged.why, HasSubstr("unsettled"));
}

TEST(Compare, ShowsNoPOfOne) {
  const Comparison comparison = compare_results(file({result("a", 10, 8)}), file({result("a", 10, 8)}));
  EXPECT_EQ(comparison.benchmarks[0].p, 1);
  EXPECT_THAT(gate_table(report_of(comparison)).text(), HasSubstr(">0.999"));
}

TEST(Compare, AdjustsForTheNumberOfBenchmarks) {
  // Four against four: p is 2 / 70 = 0.029 for each. That is evidence for a single benchmark, but not for two.
  const Comparison alone = compare_results(file({result("a", 10, 4)}), file({result("a", 12, 4)}));
  EXPECT_EQ(alone.benchmarks[0].judged.verdict, Verdict::kRegressed);
  const Comparison two =
      compare_results(file({result("a", 10, 4), result("b", 10, 4)}), file({result("a", 12, 4), result("b", 12, 4)}));
  EXPECT_NEAR(two.benchmarks[0].p, 4.0 / 70, 1e-12);
  EXPECT_EQ(two.benchmarks[0].judged.verdict, Verdict::kInconclusive);
  EXPECT_EQ(exit_code_of(two), ExitCode::kInconclusive);
}

TEST(Compare, PairsProcesses) {
  const Comparison comparison =
      compare_results(file({result("a", 10, 8)}), file({result("a", 10.2, 8)}), {.paired = true});
  EXPECT_TRUE(comparison.benchmarks[0].effect.paired);
  EXPECT_NEAR(comparison.benchmarks[0].effect.ratio, 1.02, 1e-9);
  EXPECT_EQ(comparison.benchmarks[0].judged.verdict, Verdict::kOk);
  EXPECT_TRUE(is_settled(comparison));
  EXPECT_EQ(exit_code_of(comparison), ExitCode::kOk);
}

TEST(Compare, IsInconclusiveOnSingleProcessesUnlessGivenTheirNoise) {
  const ResultFile base = file({result("a", 10, 1)}), changed = file({result("a", 20, 1)});
  const Comparison unknown = compare_results(base, changed);
  EXPECT_EQ(exit_code_of(unknown), ExitCode::kInconclusive);
  EXPECT_FALSE(is_settled(unknown));
  EXPECT_EQ(exit_code_of(compare_results(base, changed, {.process_noise = 0.03})), ExitCode::kRegression);
}

TEST(Compare, RefusesAnotherModelOfTheSameName) {
  ResultFile base = file({result("a", 10, 8)}), changed = file({result("a", 10, 8)});
  base.results[0].subject.parameters = 80560;
  EXPECT_EQ(compare_results(base, changed).benchmarks.size(), 1U) << "where one side does not count them";
  changed.results[0].subject.parameters = 49808;
  EXPECT_THAT(message_of([&] { (void)compare_results(base, changed); }),
              HasSubstr("--force): parameters of the model: 49808 against 80560 of "));
}

TEST(Compare, AdvisesTheNoiseOfProcessesOnlyWhereItWouldJudge) {
  const ResultFile base = file({result("a", 10, 1)}), changed = file({result("a", 20, 1)});
  const auto advice = [](const Comparison& comparison) {
    std::string notes;
    for (const std::string& note : comparison.notes) notes += note;
    return notes;
  };
  EXPECT_THAT(advice(compare_results(base, changed)), HasSubstr("--process-noise 3% judges it"));
  const ResultFile unsettled = file({disturbed(result("a", 20, 1))});
  EXPECT_THAT(advice(compare_results(base, unsettled)), Not(HasSubstr("--process-noise")));
}

TEST(Compare, RefusesAnotherMachineWithAllThatDiffers) {
  const ResultFile base = file({result("a", 10, 8)});
  ResultFile changed = file({result("a", 10, 8)});
  changed.machine.cpu = "EPYC";
  changed.machine.build->type = "Debug";
  changed.results[0].configuration.threads = 2;
  EXPECT_THAT(message_of([&] { (void)compare_results(base, changed); }),
              AllOf(HasSubstr("--force"), HasSubstr("CPU: EPYC against Xeon"),
                    HasSubstr("build type: Debug against Release"), HasSubstr("threads: 2 against unknown of m a")));
  const Comparison forced = compare_results(base, changed, {.force = true});
  EXPECT_EQ(forced.forced.size(), 3U);
  EXPECT_THAT(gate_table(report_of(forced)).text(), HasSubstr("forced, though they differ: CPU: EPYC against Xeon"));
  EXPECT_EQ(to_json(forced)["forced"].size(), 3U);
}

TEST(Compare, NamesAllRevisionsOfASide) {
  NamedResults one("a.json", file({result("a", 10, 8)})), other("b.json", file({result("b", 10, 8)}));
  one.second.machine.build->git_revision = "first";
  other.second.machine.build->git_revision = "second";
  const std::vector<NamedResults> base = {one}, changed = {one, other};
  const Comparison comparison = compare_results(base, changed);
  EXPECT_EQ(comparison.base_revision, "first");
  EXPECT_EQ(comparison.new_revision, "first, second");
  EXPECT_THAT(report_of(comparison).summary, HasSubstr("first, second against first, threshold"));
}

TEST(Compare, SaysWhatOnlyOneFileHas) {
  ResultFile changed = file({result("a", 10, 8), result("c", 10, 8)});
  const Comparison comparison = compare_results(file({result("a", 10, 8), result("b", 10, 8)}), changed);
  EXPECT_THAT(comparison.only_in_base, ElementsAre("m b"));
  EXPECT_THAT(comparison.only_in_new, ElementsAre("m c"));
  for (Result& one : changed.results) one.subject.request["batch"] = 2;
  EXPECT_THAT(message_of([&] { (void)compare_results(file({result("a", 10, 8)}), changed); }),
              HasSubstr("nothing can be compared"));
}

TEST(Compare, SaysInOneLineWhyUnlikeThingsAreNot) {
  std::vector<Result> few, many;
  for (int i = 0; i < 70; ++i) {
    many.push_back(result(fmt::format("kernel {}", i), 10, 8));
    many.back().subject.request["case"] = i;
  }
  few.push_back(result("lossless", 10, 8));
  EXPECT_EQ(message_of([&] { (void)compare_results(file(few), file(many)); }),
            "nothing can be compared: no work was measured in both files, by one program under one name; "
            "the base has m lossless; the new has m kernel 0, m kernel 1, m kernel 2 and 67 more");
  std::vector<Result> threads = many;
  for (Result& one : threads) one.configuration.threads = 2;
  EXPECT_EQ(message_of([&] { (void)compare_results(file(many), file(threads)); }),
            "times of different machines, builds or configurations are not compared unless forced (--force): "
            "threads: 2 against unknown of m kernel 0, m kernel 1, m kernel 2 and 67 more");
}

TEST(Compare, TellsApartWorksOfOneName) {
  std::vector<Result> cells;
  for (const int steps : {4, 8}) {
    cells.push_back(result("lossless", 10, 8));
    cells.back().subject.request = {{"images", 2}, {"steps", steps}, {"token_rows", 4 * steps}};
  }
  cells.push_back(result("lossless", 10, 8));
  cells.back().subject.request = {{"images", 2}, {"token_rows", 16}, {"pass", "forward"}};
  const Comparison comparison = compare_results(file(cells), file({cells[0], cells[2]}));
  ASSERT_THAT(comparison.benchmarks, SizeIs(2));
  EXPECT_EQ(comparison.benchmarks[0].name, "m lossless (steps 4, token rows 16)");
  EXPECT_EQ(comparison.benchmarks[1].name, "m lossless (pass forward, token rows 16)");
  EXPECT_THAT(comparison.only_in_base, ElementsAre("m lossless (steps 8, token rows 32)"));
}

TEST(Compare, TakesTheSeriesAskedFor) {
  ResultFile base = file({result("a", 10, 8)}), changed = file({result("a", 10, 8)});
  base.results[0].trials.push_back(series("image", 100, 8));
  changed.results[0].trials.push_back(series("image", 130, 8));
  EXPECT_EQ(compare_results(base, changed).benchmarks.size(), 1U);
  EXPECT_EQ(compare_results(base, changed).benchmarks[0].name, "m a, forward");
  EXPECT_EQ(compare_results(base, changed, {.series = "image"}).benchmarks[0].judged.verdict, Verdict::kRegressed);
  EXPECT_EQ(compare_results(base, changed, {.series = "all"}).benchmarks.size(), 2U);
  EXPECT_THAT(message_of([&] { (void)compare_results(base, changed, {.series = "step"}); }),
              HasSubstr("has no trials of 'step' (it has: forward, image)"));
}

TEST(Compare, MatchesTheOnlyResultsOfAWork) {
  const Comparison comparison = compare_results(file({result("lossless", 10, 8)}), file({result("fast", 8, 8)}));
  EXPECT_EQ(comparison.benchmarks.at(0).name, "m fast against lossless");
  EXPECT_THAT(comparison.only_in_new, IsEmpty());
  const Comparison several =
      compare_results(file({result("lossless", 10, 8)}), file({result("fast", 8, 8), result("lossless", 8, 8)}));
  EXPECT_EQ(several.benchmarks.at(0).name, "m lossless");
  EXPECT_THAT(several.only_in_new, ElementsAre("m fast"));
}

TEST(Compare, TakesWorkForEqualThatHasTheSameHash) {
  ResultFile counted = file({result("a", 10, 8)});
  counted.results[0].subject.parameters = 1000;  // older builds do not record it
  counted.results[0].subject.token_pixels = 16;
  EXPECT_THAT(compare_results(file({result("a", 10, 8)}), counted).benchmarks, SizeIs(1));
}

TEST(Compare, NotesOtherSwitches) {
  ResultFile changed = file({result("a", 10, 8)});
  changed.results[0].configuration.applied = {"fuse"};
  EXPECT_THAT(compare_results(file({result("a", 10, 8)}), changed).benchmarks[0].notes,
              ElementsAre("switches applied: fuse against none"));
}

TEST(Compare, DrawsATable) {
  const std::string table =
      gate_table(report_of(compare_results(file({result("a", 10, 8)}), file({result("a", 12, 8)})))).text();
  EXPECT_THAT(table, AllOf(HasSubstr("m a"), HasSubstr("REGRESSED"), HasSubstr("1.200"), HasSubstr("<0.001"),
                           HasSubstr("8, 8"), HasSubstr("bench --against"), HasSubstr("threshold 5%: 1 REGRESSED")));
  EXPECT_THAT(
      gate_table(report_of(compare_results(file({result("a", 10, 8)}), file({result("a", 12, 8)}), {.paired = true})))
          .text(),
      AllOf(HasSubstr("8 pairs"), Not(HasSubstr("bench --against"))));
  ResultFile base = file({result("a", 10, 8)}), changed = file({result("a", 12, 8)});
  for (ResultFile* one : {&base, &changed}) one->results[0].source.name = "hyperfine";
  EXPECT_THAT(gate_table(report_of(compare_results(base, changed))).text(), Not(HasSubstr("bench --against")))
      << "it cannot run another program's benchmark";
}

TEST(Compare, WritesJson) {
  const nlohmann::json document =
      to_json(compare_results(file({result("a", 10, 8)}), file({result("a", 12, 8)}), {.paired = true}));
  EXPECT_EQ(document["schema"], "headroom.comparison/1");
  EXPECT_EQ(document["benchmarks"][0]["verdict"], "REGRESSED");
  EXPECT_NEAR(document["benchmarks"][0]["interval"]["low"].get<double>(), 1.2, 1e-9);
  EXPECT_NO_THROW((void)dump_json(document));
  const nlohmann::json single = to_json(compare_results(file({result("a", 10, 1)}), file({result("a", 12, 1)})));
  EXPECT_FALSE(single["benchmarks"][0].contains("interval"));
}

}  // namespace
}  // namespace headroom
