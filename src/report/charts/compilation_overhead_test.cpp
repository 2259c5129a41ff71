#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

void add_once(Result& result, const std::string& what, double ms) {
  Trials once;
  once.wall_ms = {ms};
  result.trials.push_back(make_series(what, once));
}

Subject pass_subject() { return {.name = "tiny-dit", .request = {{"batch", 1}, {"pass", "forward"}}}; }

/// A pass of `ms` after a plan, load and first run of these times.
Result started(std::vector<std::string> switches, double ms, double plan_ms, double load_ms, double first_ms) {
  Result result = test::make_result(std::move(switches), {ms, ms, ms, ms, ms, ms}, pass_subject(), "forward");
  add_once(result, "plan", plan_ms);
  add_once(result, "load", load_ms);
  add_once(result, "first_run", first_ms);
  return result;
}

TEST(CompilationOverhead, StacksPlanLoadAndFirstRun) {
  const Drawn drawn = charts::compilation_overhead(
      test::make_dataset({test::make_file({started({}, 10, 20, 30, 20), started({"graph"}, 5, 20, 30, 65)})}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& series = drawn.charts.front().option["series"];
  ASSERT_THAT(series, SizeIs(4));
  EXPECT_THAT(test::items_of(series[0], "value"), ElementsAre(20, 20));
  EXPECT_THAT(test::items_of(series[1], "value"), ElementsAre(30, 30));
  EXPECT_THAT(test::items_of(series[2], "value"), ElementsAre(10, 60));
  EXPECT_THAT(test::items_of(series[3], "value"), ElementsAre(10, 5));
  EXPECT_THAT(
      test::items_of(series[3], "text"),
      ElementsAre("70.0 ms to the first result, 85.7% spent once",
                  "115 ms to the first result, 95.7% spent once\npays after 10 [10, 10] runs against baseline"));
  EXPECT_EQ(test::tip_text(series[0]["data"][1], "in all, to the first result"), "115 ms");
  EXPECT_THAT(drawn.charts.front().notes, Contains("n = 1 process of each start, medians."));
}

TEST(CompilationOverhead, GivesNoIntervalOfOneProcess) {
  const auto paid = [](double ms) {
    std::vector<Result> results = {started({}, 10, 20, 30, 20), started({"graph"}, ms, 20, 30, 65)};
    for (std::int64_t& process : results[1].trials.front().process) process = 0;
    const Drawn drawn = charts::compilation_overhead(test::make_dataset({test::make_file(results)}));
    return test::items_of(drawn.charts.at(0).option["series"][3], "text").at(1).get<std::string>();
  };
  EXPECT_THAT(paid(5), HasSubstr("pays after 10 runs (no interval) against baseline"));
  EXPECT_THAT(paid(11), HasSubstr("not shown to pay"));
}

TEST(CompilationOverhead, SaysWhereItNeverPays) {
  const auto paid = [](double ms) {
    const Drawn drawn = charts::compilation_overhead(
        test::make_dataset({test::make_file({started({}, 10, 20, 30, 20), started({"graph"}, ms, 20, 30, 65)})}));
    return test::items_of(drawn.charts.at(0).option["series"][3], "text").at(1).get<std::string>();
  };
  EXPECT_THAT(paid(11), HasSubstr("never pays against baseline"));
  std::vector<Result> results = {started({}, 10, 20, 30, 20), started({"graph"}, 9, 20, 30, 65)};
  results[1].trials[0].statistics.median_interval = Interval{8, 11};
  const Drawn drawn = charts::compilation_overhead(test::make_dataset({test::make_file(results)}));
  EXPECT_THAT(test::items_of(drawn.charts.at(0).option["series"][3], "text").at(1).get<std::string>(),
              HasSubstr("not shown to pay against baseline"));
}

TEST(CompilationOverhead, DrawsFirstPassesOfPeersOverTheirProcesses) {
  std::vector<ResultFile> files;
  for (const double first_ms : {100, 110, 150}) {
    Result compiled = test::make_peer("compiled", {5, 5, 5}, pass_subject(), "forward");
    add_once(compiled, "first_forward", first_ms);
    files.push_back(test::make_file({compiled}));
  }
  const Drawn drawn = charts::compilation_overhead(test::make_dataset(files));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& series = drawn.charts.front().option["series"];
  ASSERT_THAT(series, SizeIs(2)) << "a peer tells neither plan nor load";
  EXPECT_THAT(test::items_of(series[0], "value"), ElementsAre(105)) << "the median of three processes";
  EXPECT_THAT(drawn.charts.front().notes, Contains("n = 3 processes of each start, medians."));
}

TEST(CompilationOverhead, NamesTheCommandThatMeasuresIt) {
  const Drawn drawn = charts::compilation_overhead(test::make_dataset({test::make_file(test::ladder_results())}));
  EXPECT_THAT(drawn.left_out, HasSubstr("headroom bench MODEL --first-step --out FILE"));
}

}  // namespace
}  // namespace headroom
