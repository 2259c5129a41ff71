#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/json.hpp"
#include "measure/results/import.hpp"
#include "report/advice/deploy.hpp"
#include "report/charts/charts.hpp"
#include "report/dashboard.hpp"
#include "report/tables.hpp"
#include "report/test_util.hpp"
#include "report/view.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ResultFile hyperfine_file() {
  return import_results(parse_json(R"({"results": [
      {"command": "a", "times": [0.1, 0.2, 0.3], "exit_codes": [0, 0, 0]},
      {"command": "b", "times": [0.5], "exit_codes": [2]}]})",
                                   "a test"),
                        "times.json")
      .value();
}

TEST(ImportedResults, AreOneViewOfTheirProgram) {
  const Dataset dataset = test::make_dataset({hyperfine_file()});
  const std::vector<View> views = views_of(dataset);
  ASSERT_EQ(views.size(), 1U);
  EXPECT_EQ(views[0].title, "benchmarks of hyperfine");
  EXPECT_EQ(views[0].hardware, "unknown machine");
  EXPECT_EQ(views[0].program, "hyperfine");
  EXPECT_FALSE(decide(dataset, views[0], 0.01).deploy);
}

TEST(ImportedResults, StandApartFromOwnKernels) {
  const Dataset dataset = test::make_dataset({hyperfine_file(), test::kernel_file()});
  EXPECT_EQ(views_of(dataset).size(), 2U);
}

TEST(ImportedResults, HaveAChartOfTheirTimes) {
  const Dataset dataset = test::make_dataset({hyperfine_file()});
  const Drawn drawn = charts::benchmark_times(dataset);
  ASSERT_EQ(drawn.charts.size(), 1U);
  const Chart& chart = drawn.charts[0];
  const nlohmann::json& bars = chart.option["series"][0]["data"];
  ASSERT_EQ(bars.size(), 2U);
  EXPECT_EQ(bars[0]["value"], 200);
  EXPECT_EQ(bars[1]["value"], 500);
  EXPECT_THAT(chart.subtitle, AllOf(HasSubstr("hyperfine"), HasSubstr("unknown machine")));
  EXPECT_THAT(chart.notes, testing::Contains("exit code 2: b."));
  EXPECT_THAT(chart.notes, testing::Contains(HasSubstr("fewer than 6 times")));
  EXPECT_THAT(charts::benchmark_times(test::make_dataset({test::kernel_file()})).left_out, HasSubstr("hyperfine"));
}

TEST(ImportedResults, WithoutATimeBelongToTheChartsOfTheirFile) {
  const ResultFile queries =
      import_results(parse_json(R"([{"latencyMs": 2, "computeMs": 1}])", "a test"), "engine.json").value();
  const ResultFile layers =
      import_results(
          parse_json(R"([{"count": 9}, {"name": "a", "averageMs": 1}, {"name": "b", "averageMs": 0}])", "a test"),
          "layers.json")
          .value();
  const Drawn drawn = charts::benchmark_times(test::make_dataset({queries, layers}));
  for (const Chart& chart : drawn.charts) {
    const bool is_of_layers = chart.title == "Time per layer of each benchmark";
    EXPECT_THAT(chart.notes, testing::Conditional(is_of_layers, testing::Contains("takes no time of its own: b."),
                                                  testing::Each(Not(HasSubstr("takes no time")))));
  }
}

TEST(ImportedResults, OfSeveralFilesAreNamedOnceAndTheOthersCounted) {
  const Drawn drawn = charts::benchmark_times(test::make_dataset({hyperfine_file(), hyperfine_file()}));
  ASSERT_EQ(drawn.charts.size(), 1U);
  EXPECT_THAT(drawn.charts[0].notes, testing::Contains("exit code 2: b."));
  EXPECT_THAT(drawn.charts[0].notes, testing::Contains(HasSubstr("2 measurements more")));
}

TEST(ImportedResults, HaveTheirTagsAndStateInTables) {
  ResultFile file = hyperfine_file();
  file.results[1].trials.clear();
  const Table table = report_tables(test::make_dataset({file}))[1].table;
  EXPECT_THAT(table.to_markdown(), AllOf(HasSubstr("| tags |"), HasSubstr("exit code 2"), Not(HasSubstr("| work |"))));
  EXPECT_THAT(table.to_csv(), AllOf(HasSubstr(",tags,"), HasSubstr(",not timed,")));
}

TEST(ImportedResults, MakeNoClaimInTheDashboard) {
  const Dataset dataset = test::make_dataset({hyperfine_file()});
  const std::string page = make_dashboard(dataset, draw_charts(dataset), {});
  EXPECT_THAT(page, AllOf(HasSubstr("Benchmarks of hyperfine"), HasSubstr("at an unknown time"), HasSubstr("no date")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("Nothing to deploy")), Not(HasSubstr("<h2>Deploy")),
                          Not(HasSubstr("Kernels measured")), Not(HasSubstr("0 allowed of 0"))));
}

}  // namespace
}  // namespace headroom
