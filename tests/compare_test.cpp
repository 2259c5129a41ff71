// `headroom compare` as a user meets it: verdicts, exit codes, and files that must be refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/json.hpp"
#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class CompareTest : public ProgramTest {
 protected:
  /// A result file of 8 processes whose times lie around `ms`.
  void write(const std::string& name, double ms, const std::function<void(ResultFile&)>& change = {}) const {
    std::vector<Trials> processes;
    for (std::int64_t process = 0; process < 8; ++process)
      processes.push_back(
          {.wall_ms = {ms, 1.01 * ms, 0.99 * ms, ms * (1 + 0.001 * static_cast<double>(process))}, .process = process});
    ResultFile results;
    results.created = utc_now();
    results.machine = describe_machine();
    results.results.push_back(
        {.id = "a",
         .name = "baseline",
         .subject = {.kind = SubjectKind::kModel, .name = "flux", .request = {{"batch", 1}}},
         .source = {.name = "headroom", .version = "1"},
         .configuration =
             {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = {}, .baseline_dtype = {}},
         .trials = {make_series("forward", processes)},
         .memory = {},
         .quality = {},
         .tags = {},
         .plan = {}});
    if (change) change(results);
    write_results(file(name), results);
  }
  Outcome compare(const std::string& options = "") const {
    return headroom("compare " + file("a.json") + " " + file("b.json") + " " + options);
  }
  /// The same for files of which the second was changed as JSON.
  Outcome compare_changed(const std::function<void(json&)>& change) const {
    write("a.json", 10);
    write("b.json", 10);
    json document = read_json(file("b.json"));
    change(document);
    write_json(file("b.json"), document);
    return compare();
  }
};

TEST_F(CompareTest, ExitsWithZeroWhereNothingIsSlower) {
  write("a.json", 10);
  write("b.json", 10.1);
  const Outcome outcome = compare();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("flux baseline"), HasSubstr("OK"), HasSubstr("threshold 5%: 1 OK")));
}

TEST_F(CompareTest, ExitsWithThreeForARegression) {
  write("a.json", 10);
  write("b.json", 10.7);
  const Outcome outcome = compare("--out " + file("verdict.json"));
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("REGRESSED"), HasSubstr("1.070")));
  EXPECT_EQ(read_json(file("verdict.json"))["benchmarks"][0]["verdict"], "REGRESSED");
  EXPECT_EQ(compare("--threshold 10%").code, 0);
  EXPECT_EQ(headroom("compare " + file("b.json") + " " + file("a.json")).code, 0);  // an improvement
}

TEST_F(CompareTest, ExitsWithFourWhereNothingIsCertain) {
  const auto single = [](ResultFile& results) {
    results.results[0].trials = {make_series("forward", Trials{.wall_ms = {10, 10.1, 9.9, 10, 10, 10}})};
  };
  write("a.json", 10, single);
  write("b.json", 10, single);
  EXPECT_EQ(compare().code, 4);
  EXPECT_THAT(compare().out, HasSubstr("one process on each side"));
  EXPECT_EQ(compare("--process-noise 1%").code, 0);
}

TEST_F(CompareTest, RefusesAnotherMachineUnlessForced) {
  write("a.json", 10);
  write("b.json", 10, [](ResultFile& results) {
    results.machine.cpu = "an abacus";
    results.machine.build->type = "Debug";
  });
  const Outcome refused = compare();
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << "what is refused, and why";
  EXPECT_THAT(refused.err, AllOf(HasSubstr("an abacus against"), HasSubstr("build type"), HasSubstr("--force")));
  const Outcome forced = compare("--force --json");
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(parse_json(forced.out, "stdout")["forced"].size(), 2U);
}

TEST_F(CompareTest, RefusesOtherSchemasByName) {
  const Outcome outcome = compare_changed([](json& document) { document["schema"] = "headroom.result/2"; });
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("has schema 'headroom.result/2'; this program reads 'headroom.result/1'"));
}

TEST_F(CompareTest, RefusesTimesThatAreNone) {
  const Outcome zero = compare_changed([](json& document) { document["results"][0]["trials"][0]["time"][0] = 0; });
  EXPECT_EQ(zero.code, 1);
  EXPECT_THAT(zero.err, HasSubstr("a finite time over zero"));
  const Outcome null =
      compare_changed([](json& document) { document["results"][0]["trials"][0]["time"][0] = nullptr; });
  EXPECT_EQ(null.code, 1);
  EXPECT_THAT(null.err, StartsWith("headroom: "));
  // What other programs write for NaN and infinity is no JSON.
  for (const char* number : {"NaN", "Infinity", "1e999"}) {
    write("a.json", 10);
    write("b.json", 10);
    std::string text = read_file(file("b.json"));
    text.replace(text.find("\"time\": [") + 9, 0, std::string(number) + ", ");
    write_file_atomically(file("b.json"), text);
    EXPECT_EQ(compare().code, 1) << number;
    EXPECT_THAT(compare().err, HasSubstr("b.json")) << number;
  }
}

TEST_F(CompareTest, ExplainsMistakes) {
  write("a.json", 10);
  write("b.json", 10);
  EXPECT_EQ(compare("--threshold 5").code, 2);
  EXPECT_THAT(compare("--threshold 5").err, HasSubstr("'5' is not a share such as 5% or 0.05"));
  EXPECT_EQ(compare("--series step").code, 1);
  EXPECT_EQ(headroom("compare " + file("a.json")).code, 2);
  EXPECT_EQ(headroom("compare " + file("a.json") + " " + file("none.json")).code, 1);
}

}  // namespace
}  // namespace headroom
