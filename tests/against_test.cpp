// `headroom bench` as a judge: real processes, interleaved, and slowdowns that were planted in a test binary.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "measure/results/timing.hpp"
#include "measure/statistics/process_pairs.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

BenchRun spin(const std::string& percent) {
  return [percent] { return run_bench_process({std::string(kSpinBench) + percent}); };
}

class PlantedSlowdown : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(std::string(kSpinBench) + "0")) GTEST_SKIP() << "the planted benchmarks are not bundled";
  }
};

/// Other programs on the machine may blur a measurement, so one that does not show what was planted is tried again,
/// three times in all.
ComparedBenchmark compare_builds(const std::string& base, const std::string& changed, Verdict planted) {
  ComparedBenchmark compared;
  for (int attempt = 0; attempt < 3; ++attempt) {
    compared =
        run_pairs(spin(base), spin(changed), {.pairs = 8, .max_pairs = 32, .compared = {}}).comparison.benchmarks.at(0);
    if (compared.judged.verdict == planted) break;
  }
  return compared;
}

TEST_F(PlantedSlowdown, OfSevenPercentIsFound) {
  const ComparedBenchmark found = compare_builds("0", "7", Verdict::kRegressed);
  if (found.judged.verdict == Verdict::kInconclusive) GTEST_SKIP() << "the machine is too busy: " << found.judged.why;
  EXPECT_EQ(found.judged.verdict, Verdict::kRegressed) << found.judged.why;
}

TEST_F(PlantedSlowdown, IsAnImprovementTheOtherWayRound) {
  const ComparedBenchmark found = compare_builds("7", "0", Verdict::kImproved);
  EXPECT_NE(found.judged.verdict, Verdict::kRegressed) << found.judged.why;
  if (found.judged.verdict != Verdict::kImproved) GTEST_SKIP() << "the machine is too busy: " << found.judged.why;
}

TEST_F(PlantedSlowdown, OfTwoPercentIsNoRegression) {
  const ComparedBenchmark found = compare_builds("0", "2", Verdict::kOk);
  if (found.judged.verdict == Verdict::kInconclusive) GTEST_SKIP() << "the machine is too busy: " << found.judged.why;
  EXPECT_EQ(found.judged.verdict, Verdict::kOk) << found.judged.why;
}

using BenchJudge = ProgramTest;

TEST_F(BenchJudge, RunsAgainstAnotherBinary) {
  // A build against itself: neither side may win. One false alarm in a row is what a test at 5% allows; two are not.
  const std::string copy = file("other");
  fs::copy(kHeadroomBinary, copy);
  Outcome outcome;
  for (int attempt = 0; attempt < 2; ++attempt) {
    outcome =
        headroom("bench " + std::string(kSourceDir) + "/models/fashion-flux --trials 5 --opt lossless --against " +
                 copy + " --processes 6 --max-processes 6 --out " + file("new.json") + " --save-base " +
                 file("base.json") + " --save-verdict " + file("verdict.json"));
    if (outcome.code == 0 || outcome.code == 4) break;
  }
  EXPECT_TRUE(outcome.code == 0 || outcome.code == 4) << outcome.code << outcome.err;
  const Outcome fewer = headroom("bench fashion-flux --against " + copy + " --processes 8 --max-processes 7");
  EXPECT_EQ(fewer.code, 2);
  EXPECT_THAT(fewer.err, HasSubstr("--max-processes is 7, expected at least the 8 pairs"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("fashion-flux"), HasSubstr("6 pairs"), HasSubstr("95% interval")));
  const ResultFile base = read_results(file("base.json"));
  EXPECT_EQ(base.results.at(0).trials.at(0).process.back(), 5);
  EXPECT_EQ(read_results(file("new.json")).results.at(0).trials.at(0).time_ms.size(), 30U);
  EXPECT_EQ(read_json(file("verdict.json"))["benchmarks"][0]["paired"], true);
}

TEST_F(BenchJudge, SavesAndComparesInOneRun) {
  const std::string bench = "bench fashion-flux --trials 5 --opt lossless --processes 2 ";
  ASSERT_EQ(headroom(bench + "--out " + file("a.json")).code, 0);
  const Outcome outcome = headroom(bench + "--compare " + file("a.json") + " --out " + file("a.json"));
  // Two processes on each side cannot give p < 0.05: nothing is faster or slower, at most OK.
  EXPECT_TRUE(outcome.code == 0 || outcome.code == 4) << outcome.code << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("2, 2"), HasSubstr(outcome.code == 0 ? "OK" : "INCONCLUSIVE")));
  // What differs is refused, and forced said so.
  nlohmann::json document = read_json(file("a.json"));
  document["machine"]["cpu"] = "an abacus";
  write_json(file("a.json"), document);
  const Outcome refused = headroom(bench + "--compare " + file("a.json"));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("an abacus"));
  EXPECT_NE(headroom(bench + "--force --compare " + file("a.json") + " --out " + file("b.json")).code, 1);
  EXPECT_EQ(read_results(file("b.json")).results.at(0).tags.back(), "forced_comparison");
}

TEST_F(BenchJudge, JudgesABudget) {
  const std::string bench = "bench fashion-flux --token-rows 2 --token-columns 2 --budget ";
  // Other programs on the machine may disturb the times, so the file says which verdict is right.
  const auto is_disturbed = [&](const char* name) { return why_unsettled(read_results(file(name)).results.at(0)); };
  const Outcome met = headroom(bench + "60s --save " + file("met.json"));
  EXPECT_EQ(met.code, is_disturbed("met.json") ? 4 : 0) << met.out;
  EXPECT_EQ(read_results(file("met.json")).results.at(0).trials.at(0).statistics.n, 100) << "as the p99 takes";
  const Outcome few = headroom(bench + "60s --trials 5 --save " + file("few.json"));
  EXPECT_EQ(few.code, 4);
  EXPECT_THAT(few.out, HasSubstr(is_disturbed("few.json") ? "unsettled: " : "5 trials say little of the p99"));
  const Outcome missed = headroom(bench + "1us --trials 6 --save " + file("missed.json"));
  EXPECT_EQ(missed.code, is_disturbed("missed.json") ? 4 : 3) << missed.err;
  EXPECT_THAT(missed.out,
              AllOf(HasSubstr(is_disturbed("missed.json") ? "INCONCLUSIVE" : "MISSED"), HasSubstr("1.00 µs")));
  EXPECT_EQ(headroom(bench + "fast").code, 2);
}

TEST_F(BenchJudge, WritesOtherFormats) {
  const std::string bench = "bench fashion-flux --trials 3 --budget 60s --format ";
  EXPECT_THAT(headroom(bench + "csv").out, StartsWith("benchmark,series,"));
  EXPECT_THAT(headroom(bench + "markdown").out, StartsWith("| benchmark | series |"));
  const nlohmann::json google = parse_json(headroom(bench + "google-benchmark").out, "stdout");
  EXPECT_EQ(google["benchmarks"][0]["repetitions"], 3);
  EXPECT_EQ(parse_json(headroom(bench + "json").out, "stdout")["schema"], "headroom.result/1");
  EXPECT_EQ(headroom(bench + "yaml").code, 2);
}

TEST_F(BenchJudge, RunsTheSuiteOfModels) {
  EXPECT_THAT(headroom("bench --list").out, AllOf(HasSubstr("models: fashion-flux batch 1\n"), HasSubstr("kernels: ")));
  const Outcome outcome =
      headroom("bench models --filter 'fashion-flux' --trials 3 --opt lossless --out " + file("a.json"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const ResultFile saved = read_results(file("a.json"));
  ASSERT_EQ(saved.results.size(), 2U);
  EXPECT_EQ(saved.results[1].subject.request["batch"], 20);
  EXPECT_EQ(headroom("bench models --filter nothing").code, 2);
}

TEST_F(BenchJudge, SaysWhatItsProcessesSaid) {
  const Outcome declined = headroom("bench fashion-flux --opt fp8,arena --processes 2 --trials 3");
  EXPECT_EQ(declined.code, 0) << declined.err;
  EXPECT_THAT(declined.err, HasSubstr("switch fp8 declined: "));
  const Outcome mistaken = headroom("bench fashion-flux --opt warp --processes 2");
  EXPECT_EQ(mistaken.code, 2);
  EXPECT_THAT(mistaken.err, StartsWith("headroom: unknown switch 'warp'"));
  EXPECT_EQ(headroom("bench nosuch --processes 2").code, 2);
}

TEST_F(BenchJudge, ExplainsMistakes) {
  EXPECT_THAT(headroom("bench fashion-flux --against /nonexistent/headroom").err, HasSubstr("/nonexistent/headroom"));
  EXPECT_EQ(headroom("bench fashion-flux --against x --compare y").code, 2);
  EXPECT_EQ(headroom("bench fashion-flux --against x --processes 3").code, 2);
  EXPECT_EQ(headroom("bench fashion-flux --save-verdict " + file("v.json") + " --trials 3").code, 2);
  EXPECT_EQ(headroom("bench fashion-flux --save-base " + file("v.json")).code, 2);
  EXPECT_EQ(headroom("bench").code, 2);
  EXPECT_EQ(headroom("bench fashion-flux --precision 5").code, 2);
}

}  // namespace
}  // namespace headroom
