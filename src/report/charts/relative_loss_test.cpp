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

/// A baseline at a Fréchet distance of 0.2 and an accuracy of 98%, `bf16` certainly better, `steps=5` judged
/// without the difference.
std::vector<Result> judged_results() {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_result({"bf16"}, {1, 1}),
                                 test::make_result({"steps=5"}, {1, 1})};
  test::set_quality(results[0], "frechet_distance", 0.2, Interval{0.19, 0.21});
  test::set_quality(results[1], "frechet_distance", 0.18, Interval{0.17, 0.19});
  test::set_quality(results[1], "frechet_difference", -0.02, Interval{-0.03, -0.01});
  results[1].quality.back().against = "baseline, same seeds";
  test::set_quality(results[2], "frechet_distance", 0.3);
  return results;
}

TEST(RelativeLoss, IsInPercentOfTheBaseline) {
  const Drawn drawn = charts::relative_loss(test::make_dataset({test::make_file(judged_results())}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("bf16", "steps=5"));
  EXPECT_THAT(test::items_of(option["series"][1], "text"),
              ElementsAre("-10% [-15, -5]  0.180 from 0.200", "+50%  0.300 from 0.200"));
  EXPECT_EQ(test::role_of_item(option["series"][0]["data"][0]), "green") << "a lower distance is better";
  EXPECT_EQ(test::role_of_item(option["series"][0]["data"][1]), "hollow base") << "nothing tells how sure it is";
  EXPECT_NEAR(option["series"][2]["data"][0][1].get<double>(), -0.15, 1e-12);
  EXPECT_THAT(drawn.charts.front().notes, Contains("Held against: the reference."));
}

TEST(RelativeLoss, OfAccuracyHasNewcombesInterval) {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_result({"int8"}, {1, 1})};
  test::set_quality(results[0], "accuracy", 0.98, Interval{0.97, 0.99});
  test::set_quality(results[1], "accuracy", 0.95, Interval{0.94, 0.96});
  const Drawn drawn = charts::relative_loss(test::make_dataset({test::make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_EQ(option["series"][1]["data"][0]["text"], "-3 points [-4.41, -1.59]  95.0% from 98.0%")
      << "0.03 less and more sqrt(2) percent";
  EXPECT_EQ(test::role_of_item(option["series"][0]["data"][0]), "purple");
  EXPECT_EQ(option["xAxis"]["axisLabel"]["formatter"]["$fn"], "axis_points") << "points are no percent";
}

TEST(RelativeLoss, OfAccuracyTakesTheDifferenceOnTheSameSeeds) {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_result({"int8"}, {1, 1})};
  test::set_quality(results[0], "accuracy", 0.98, Interval{0.97, 0.99});
  test::set_quality(results[1], "accuracy", 0.975, Interval{0.965, 0.985});
  test::set_quality(results[1], "accuracy_difference", -0.005, Interval{-0.009, -0.001});
  const Drawn drawn = charts::relative_loss(test::make_dataset({test::make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  EXPECT_EQ(drawn.charts.front().option["series"][1]["data"][0]["text"], "-0.5 points [-0.9, -0.1]  97.5% from 98.0%");
}

TEST(RelativeLoss, SaysWhatFewImagesDoNotSettle) {
  std::vector<Result> results = judged_results();
  for (Result& result : results) result.quality.front().against = "the test set, 20 images";
  const std::string note = "20 images say little of the Fréchet distance, judge at least 50.";
  EXPECT_THAT(charts::relative_loss(test::make_dataset({test::make_file(results)})).charts.front().notes,
              Contains(note));
  EXPECT_THAT(charts::loss_comparison(test::make_dataset({test::make_file(results)})).charts.front().notes,
              Contains(note));
}

TEST(RelativeLoss, NeedsTheBaselineOfItsOwnRun) {
  std::vector<Result> results = judged_results();
  const ResultFile baseline = test::make_file({results[0]}), others = test::make_file({results[1], results[2]});
  const Drawn drawn = charts::relative_loss(test::make_dataset({baseline, others}));
  EXPECT_THAT(drawn.charts, IsEmpty());
  EXPECT_THAT(drawn.left_out, HasSubstr("headroom ladder --quality"));
}

}  // namespace
}  // namespace headroom
