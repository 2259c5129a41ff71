// Gates as continuous integration meets them: memory, quality, p99 and size that get worse while the time stays, budget
// files, and the forms in which verdicts are written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/json.hpp"
#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class GatesTest : public ProgramTest {
 protected:
  using Change = std::function<void(Result&)>;

  /// 8 processes of 60 trials around 10 ms, of which one in 20 takes `tail` ms.
  static TrialSeries times(double tail, std::int64_t count = 60) {
    std::vector<Trials> processes;
    for (std::int64_t process = 0; process < 8; ++process) {
      Trials& trials = processes.emplace_back();
      trials.process = process;
      for (std::int64_t i = 0; i < count; ++i)
        trials.wall_ms.push_back((i % 20 == 7 ? tail : 10 + 0.005 * static_cast<double>(i % 7)) *
                                 (1 + 0.001 * static_cast<double>(process)));
    }
    return make_series("forward", processes);
  }

  void write(const std::string& name, const Change& change = {}) const {
    Result result{
        .id = "a",
        .name = "lossless",
        .subject = {.kind = SubjectKind::kModel, .name = "flux", .request = {{"batch", 1}, {"pass", "forward"}}},
        .source = {.name = "headroom", .version = "1"},
        .configuration =
            {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = {}, .baseline_dtype = {}},
        .trials = {times(20)},
        .memory = MemoryReport{},
        .quality =
            {{.metric = "psnr_db", .against = "baseline f32, same seeds", .value = 35, .interval = {}, .note = {}}},
        .tags = {},
        .plan = {}};
    result.memory->peak_bytes = 1'000'000'000;
    result.memory->weights_bytes = 400'000'000;
    if (change) change(result);
    ResultFile results;
    results.created = utc_now();
    results.machine = describe_machine();
    results.results.push_back(std::move(result));
    fs::create_directories(fs::path(file(name)).parent_path());
    write_results(file(name), results);
  }

  Outcome compare(const std::string& options = "") const {
    return headroom("compare " + file("a.json") + " " + file("b.json") + " " + options);
  }
  Outcome compare_changed(const Change& change, const std::string& options = "") const {
    write("a.json");
    write("b.json", change);
    return compare(options);
  }
  Outcome check(const json& rows, const std::string& options = "") const {
    write_json(file("budget.json"), {{"schema", "headroom.budget/1"}, {"rows", rows}});
    return headroom("compare " + file("a.json") + " --budget " + file("budget.json") + " " + options);
  }
  /// What Python's parser makes of a file of JUnit's: one line for each test case.
  Outcome parse_junit(const std::string& name) const {
    return run(
        "python3 -c \"import sys, xml.etree.ElementTree as e\n"
        "for c in e.parse(sys.argv[1]).getroot().iter('testcase'):\n"
        "    print(c.get('classname'), c.get('name'), *[x.tag for x in c], sep=' | ')\" " +
        file(name));
  }
};

TEST_F(GatesTest, PassWhatIsUnchanged) {
  const Outcome same = compare_changed({});
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("unchanged: peak memory of 1, weights of 1, PSNR (baseline f32, same seeds) of 1\n"));
}

TEST_F(GatesTest, FindMoreMemoryAtTheSameTime) {
  const Outcome more = compare_changed([](Result& result) { result.memory->peak_bytes = 1'200'000'000; });
  EXPECT_EQ(more.code, 3) << more.err;
  EXPECT_THAT(more.out, AllOf(HasSubstr("peak memory"), HasSubstr("20.0% more, the limit is 5%"),
                              HasSubstr("1 REGRESSED, 4 OK")));
  EXPECT_EQ(compare("--limit memory=25%").code, 0);
  EXPECT_EQ(compare("--limit memory=off").code, 0);
  EXPECT_EQ(headroom("compare " + file("b.json") + " " + file("a.json")).code, 0) << "less memory is an improvement";
}

TEST_F(GatesTest, FindAWorseQualityAtTheSameTime) {
  const Outcome worse =
      compare_changed([](Result& result) { result.quality[0].value = 34; }, "--save " + file("verdict.json"));
  EXPECT_EQ(worse.code, 3) << worse.err;
  EXPECT_THAT(worse.out,
              AllOf(HasSubstr("PSNR (baseline f32, same seeds)"), HasSubstr("1.00 dB less, the limit is 0.5 dB"),
                    HasSubstr("the files give no interval")));
  const json quantities = read_json(file("verdict.json"))["benchmarks"][0]["quantities"];
  EXPECT_EQ(quantities.back()["quantity"], "psnr");
  EXPECT_EQ(quantities.back()["verdict"], "REGRESSED");
  EXPECT_EQ(quantities.back()["difference"], -1);
  EXPECT_EQ(compare("--limit psnr=2dB").code, 0);
}

TEST_F(GatesTest, FindALongerTailAtTheSameMedian) {
  const Outcome longer = compare_changed([](Result& result) { result.trials = {times(26)}; });
  EXPECT_EQ(longer.code, 3) << longer.out << longer.err;
  EXPECT_THAT(longer.out, AllOf(HasSubstr("p99"), HasSubstr("REGRESSED"), HasSubstr("1.300")));
  EXPECT_EQ(compare("--limit p99=40%").code, 0);
}

TEST_F(GatesTest, ClaimNothingOfTheTailOfFewTrials) {
  write("a.json", [](Result& result) { result.trials = {times(20, 12)}; });
  write("b.json", [](Result& result) { result.trials = {times(40, 12)}; });
  const Outcome few = compare();
  EXPECT_EQ(few.code, 0) << few.out;
  EXPECT_THAT(few.out, HasSubstr("p99 of flux lossless is INCONCLUSIVE: the p99 of 96 trials has no upper bound"));
  EXPECT_EQ(compare("--limit p99=10%").code, 4) << "p99 is judged if asked for";
}

TEST_F(GatesTest, FindLargerWeightsAtTheSameTime) {
  const Outcome larger = compare_changed([](Result& result) { result.memory->weights_bytes = 440'000'000; });
  EXPECT_EQ(larger.code, 3) << larger.err;
  EXPECT_THAT(larger.out, AllOf(HasSubstr("weights"), HasSubstr("10.0% more, the limit is 2%")));
}

TEST_F(GatesTest, SayWhereBothSidesAreTheSame) {
  write("a.json");
  fs::copy(file("a.json"), file("b.json"));
  EXPECT_THAT(compare().out, HasSubstr("both sides hold the same measurements"));
  EXPECT_THAT(headroom("compare " + file("a.json") + " " + file("a.json")).out,
              HasSubstr("are the same, so nothing can differ"));
}

TEST_F(GatesTest, TakeFolders) {
  const auto batch = [](std::int64_t size, std::int64_t peak) {
    return [=](Result& result) {
      result.subject.request["batch"] = size;
      result.memory->peak_bytes = peak;
    };
  };
  write("main/one.json", batch(1, 1'000));
  write("main/deep/four.json", batch(4, 1'000));
  write("branch/renamed.json", batch(1, 1'000));
  write("branch/deep/four.json", batch(4, 2'000));
  write("branch/new.json", batch(8, 1'000));
  const std::string folders = "compare " + file("main") + " " + file("branch");
  const Outcome both = headroom(folders);
  EXPECT_EQ(both.code, 3) << both.err;
  EXPECT_THAT(both.out, AllOf(HasSubstr("flux lossless (batch 4)"), HasSubstr("100.0% more"),
                              HasSubstr("only in the new: flux lossless (batch 8)"), HasSubstr("peak memory of 1")));
  // The same work twice in a folder: the name of the file decides, and where it does not, nobody does.
  write("branch/one.json", batch(1, 1'000));
  EXPECT_EQ(headroom(folders).code, 3);
  write("main/zero.json", batch(1, 1'000));
  const Outcome ambiguous = headroom(folders);
  EXPECT_EQ(ambiguous.code, 1);
  EXPECT_THAT(ambiguous.err,
              AllOf(HasSubstr("of zero.json is in several files"), HasSubstr("one.json"), HasSubstr("renamed.json")));
}

TEST_F(GatesTest, WriteWhatContinuousIntegrationReads) {
  const std::string name = "x, y: ::error::<b>&\"|`@team`";
  const auto named = [&](std::int64_t peak) {
    return [=](Result& result) {
      result.name = name;
      result.memory->peak_bytes = peak;
    };
  };
  write("a.json", named(1'000));
  write("b.json", named(2'000));
  const Outcome outcome = compare("--annotations --markdown " + file("verdict.md") + " --junit " + file("verdict.xml"));
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      HasSubstr(
          "\n::error title=flux x%2C y%3A %3A%3Aerror%3A%3A<b>&\"|`@team` peak memory%3A REGRESSED::100.0%25 more"));
  const Outcome parsed = parse_junit("verdict.xml");
  EXPECT_EQ(parsed.code, 0) << parsed.err << read_file(file("verdict.xml"));
  EXPECT_THAT(parsed.out, HasSubstr("flux " + name + " | peak memory | failure\n"));
  EXPECT_THAT(parsed.out, HasSubstr("flux " + name + " | time\n"));
  const std::string markdown = read_file(file("verdict.md"));
  EXPECT_THAT(markdown, AllOf(HasSubstr("### headroom compare: 1 of 5 failed"), HasSubstr("**REGRESSED**"),
                              HasSubstr("\\@team")));
  EXPECT_THAT(markdown, Not(HasSubstr("<b>")));
  EXPECT_EQ(parse_json(compare("--json --annotations").out, "stdout")["schema"], "headroom.comparison/1");
}

TEST_F(GatesTest, HoldResultsAgainstABudgetFile) {
  write("a.json");
  const json keeps = {{"model", "flux"},
                      {"batch", 1},
                      {"device", "cpu"},
                      {"limits",
                       {{"time", "11ms"},
                        {"p99", "25ms"},
                        {"memory", "1GB"},
                        {"size", "400MB"},
                        {"psnr", "30dB"},
                        {"throughput", "90/s"}}}};
  const Outcome passed = check(json::array({keeps}));
  EXPECT_EQ(passed.code, 0) << passed.out << passed.err;
  EXPECT_THAT(passed.out, HasSubstr("1 row: 6 PASS"));
  json misses = keeps;
  misses["limits"]["memory"] = "900MB";
  const Outcome missed = check(json::array({misses}), "--annotations --junit " + file("budget.xml"));
  EXPECT_EQ(missed.code, 3);
  EXPECT_THAT(missed.out,
              AllOf(HasSubstr("MISSED"), HasSubstr("1 row: 5 PASS, 1 MISSED"), HasSubstr("::error title=")));
  EXPECT_THAT(parse_junit("budget.xml").out, HasSubstr(" | peak memory | failure\n"));
  EXPECT_EQ(parse_json(check(json::array({misses}), "--json").out, "stdout")["schema"], "headroom.gate/1");
}

TEST_F(GatesTest, FailABudgetThatNobodyMeasured) {
  write("a.json");
  json row = {{"model", "other"}, {"limits", {{"time", "1s"}}}};
  const Outcome missing = check(json::array({row}));
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.out, AllOf(HasSubstr("NOT MEASURED"), HasSubstr("no result fits the row")));
  row["required"] = false;
  EXPECT_EQ(check(json::array({row})).code, 0);
}

TEST_F(GatesTest, LeaveABudgetOpenThatFewTrialsCannotDecide) {
  write("a.json", [](Result& result) { result.trials = {times(20, 12)}; });
  EXPECT_EQ(check(json::array({json{{"limits", {{"p99", "25ms"}}}}})).code, 4);
}

TEST_F(GatesTest, ExplainMistakes) {
  write("a.json");
  write("b.json");
  EXPECT_THAT(compare("--limit memroy=5%").err, HasSubstr("no quantity 'memroy'"));
  EXPECT_EQ(compare("--limit memory=5").code, 2);
  EXPECT_EQ(compare("--threshold 5% --limit time=3%").code, 2);
  EXPECT_EQ(headroom("compare " + file("a.json")).code, 2);
  EXPECT_EQ(compare(file("a.json")).code, 2) << "three files";
  EXPECT_EQ(check(json::array({json{{"limits", {{"time", "1s"}}}}}), "--threshold 5%").code, 2);
  const Outcome wrong = check(json::array({json{{"limits", {{"speed", 1}}}}}));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("budget.json"), HasSubstr("limits.speed is no quantity")));
}

}  // namespace
}  // namespace headroom
