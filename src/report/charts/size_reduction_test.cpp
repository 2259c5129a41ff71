#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using test::ladder_results;
using test::make_dataset;
using test::make_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST(SizeReduction, IsAWaterfallOfWeights) {
  const Drawn drawn = charts::size_reduction(make_dataset({make_file(ladder_results())}));
  const json& option = drawn.charts.front().option;
  EXPECT_THAT(test::items_of(option["series"][1], "value"), ElementsAre(4'194'304, 0, 0, 2'097'152, 2'097'152));
  EXPECT_EQ(option["series"][1]["data"][3]["text"], "2.00 MiB  2.00x smaller");
  EXPECT_EQ(option["series"][2]["data"][4]["text"], "2.00 MiB  2.00x smaller in all");
  ASSERT_THAT(drawn.charts, SizeIs(1));
  std::vector<Result> same = ladder_results();
  same.back().memory = same.front().memory;
  EXPECT_THAT(charts::size_reduction(make_dataset({make_file(same)})).charts, IsEmpty());
}

TEST(SizeReduction, CallsWhatIsLargerLargerWhateverTheTimes) {
  std::vector<Result> results = ladder_results();
  for (Result& result : results) result.unsettled = "other work held the CPUs";
  test::set_memory(results[1], 4'404'019, 8'388'608, 10'485'760);
  const Drawn drawn = charts::size_reduction(make_dataset({make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(2));
  const Chart& alone = drawn.charts[1];
  EXPECT_EQ(alone.variant, "alone");
  EXPECT_EQ(alone.option["series"][0]["data"][1]["text"], "4.20 MiB  1.05x larger (+5%)");
  EXPECT_THAT(alone.option["yAxis"]["data"].dump(), Not(HasSubstr("unsettled")));
  EXPECT_THAT(drawn.charts[0].option["yAxis"]["data"].dump(), Not(HasSubstr("unsettled")));
}

TEST(CumulativeImpact, SaysThatAllTogetherIsUnsettled) {
  std::vector<Result> results = ladder_results();
  results.back().unsettled = "other work held the CPUs";
  const Drawn drawn = charts::cumulative_impact(make_dataset({make_file(results)}));
  EXPECT_THAT(drawn.charts.at(0).option["series"][2]["data"].back()["text"].get<std::string>(), HasSubstr("unsettled"));
}

}  // namespace
}  // namespace headroom
