#include <fmt/format.h>
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
using testing::IsEmpty;
using testing::SizeIs;

struct Judged {
  int steps;
  double distance;
  std::optional<Interval> interval;
};

/// A request of 10 steps, and others of fewer steps by `steps=N`.
Dataset judged_steps(const std::vector<Judged>& all) {
  std::vector<Result> results;
  for (const Judged& one : all) {
    results.push_back(test::make_result(
        one.steps == 10 ? std::vector<std::string>{} : std::vector<std::string>{fmt::format("steps={}", one.steps)},
        {20, 20, 20}));
    test::set_quality(results.back(), "frechet_distance", one.distance, one.interval);
  }
  return test::make_dataset({test::make_file(results)});
}

std::vector<json> texts_of(const Drawn& drawn) {
  return test::items_of(drawn.charts.at(0).option["series"][0], "text");
}

TEST(StepsQuality, MarksDraftAndFinalByTheIntervals) {
  const Drawn drawn = charts::steps_quality(judged_steps({{10, 0.20, Interval{0.19, 0.21}},
                                                          {8, 0.205, Interval{0.195, 0.215}},
                                                          {4, 0.30, Interval{0.28, 0.32}},
                                                          {2, 0.42, Interval{0.40, 0.44}}}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const Chart& chart = drawn.charts.front();
  EXPECT_THAT(texts_of(drawn), ElementsAre("0.420", "0.300  draft", "0.205  final", "0.200"));
  EXPECT_THAT(chart.notes,
              Contains("Final: 8 steps. The intervals do not tell it apart from 10 steps, which scores best."));
  EXPECT_THAT(chart.notes, Contains("Draft: 4 steps, at most twice the Fréchet distance, with 95% confidence."));
  EXPECT_EQ(chart.option["series"][2]["data"][0]["value"], json::parse("[2.0, 20.0]"))
      << "2 steps of 20 ms make 2 images";
  EXPECT_EQ(chart.option["series"][4]["data"][0]["value"], json::parse("[2.0, 0.44]")) << "a text is above its whisker";
  EXPECT_EQ(test::role_of_item(chart.option["series"][0]["data"][1]), "green");
  EXPECT_EQ(test::role_of_item(chart.option["series"][0]["data"][2]), "orange");
}

TEST(StepsQuality, SaysNothingOfFewerStepsThanWereMeasured) {
  const Drawn best =
      charts::steps_quality(judged_steps({{10, 0.30, Interval{0.28, 0.32}}, {8, 0.20, Interval{0.19, 0.21}}}));
  EXPECT_THAT(best.charts.at(0).notes, Contains("Final: 8 steps, which scores best; fewer were not measured."));
  EXPECT_THAT(best.charts.at(0).notes, Not(Contains(HasSubstr("Draft"))));
  const Drawn near =
      charts::steps_quality(judged_steps({{10, 0.20, Interval{0.19, 0.21}}, {8, 0.205, Interval{0.195, 0.215}}}));
  EXPECT_THAT(
      near.charts.at(0).notes,
      Contains("Final: 8 steps, the fewest that were measured. The intervals do not tell it apart from 10 steps, "
               "which scores best."));
}

TEST(StepsQuality, SaysWhereFewerStepsAreWorseForCertain) {
  const Drawn drawn =
      charts::steps_quality(judged_steps({{10, 0.20, Interval{0.19, 0.21}}, {4, 0.50, Interval{0.45, 0.55}}}));
  EXPECT_THAT(drawn.charts.at(0).notes,
              Contains("Final: 10 steps, which scores best; fewer steps are certainly worse."));
  EXPECT_THAT(drawn.charts.at(0).notes,
              Contains("Draft: none below 10 steps keeps the limit for certain (at most twice the Fréchet distance)."));
}

TEST(StepsQuality, MarksNothingWithoutIntervals) {
  const Drawn drawn = charts::steps_quality(judged_steps({{10, 0.20, {}}, {4, 0.30, Interval{0.28, 0.32}}}));
  EXPECT_THAT(texts_of(drawn), ElementsAre("0.300", "0.200"));
  EXPECT_THAT(drawn.charts.at(0).notes, Contains(HasSubstr("No number of steps is marked")));
  EXPECT_EQ(test::role_of_item(drawn.charts.at(0).option["series"][0]["data"][1]), "hollow blue");
  EXPECT_THAT(charts::steps_quality(judged_steps({{10, 0.2, {}}})).charts, IsEmpty());
}

}  // namespace
}  // namespace headroom
