#include "report/plots/dot_plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/charts/option_test_util.hpp"

namespace headroom {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<Dot> four_dots() {
  return {{.name = "up", .value = 1.2, .interval = Interval{1.1, 1.3}, .text = "up", .tip = {}},
          {.name = "down", .value = 0.8, .interval = Interval{0.7, 0.9}, .text = "down", .tip = {}},
          {.name = "either", .value = 1.05, .interval = Interval{0.9, 1.2}, .text = "either", .tip = {}},
          {.name = "bare", .value = 1.5, .interval = {}, .text = "bare", .tip = {}}};
}

TEST(DotPlot, ColoursWhatTheIntervalTells) {
  const nlohmann::json option = dot_plot(four_dots(), "factor", "axis_factor", 1, Finding::kAbove);
  std::vector<std::string> roles;
  for (std::size_t i = 0; i < 4; ++i) roles.push_back(test::role_of_item(option["series"][0]["data"][i]));
  EXPECT_THAT(roles, ElementsAre("green", "purple", "base", "hollow base"));
  EXPECT_EQ(option["series"][2]["data"], nlohmann::json::parse("[[0, 1.1, 1.3], [1, 0.7, 0.9], [2, 0.9, 1.2]]"));
  EXPECT_EQ(option["series"][1]["data"][0]["value"], nlohmann::json::parse("[1.3, 0]")) << "text is beyond the whisker";
  EXPECT_EQ(option["series"][1]["data"][1]["value"], nlohmann::json::parse("[1.0, 1]"))
      << "and beyond the dashed line, where that would cross it";
  const nlohmann::json losses = dot_plot(four_dots(), "loss", "axis_factor", 1, Finding::kBelow);
  EXPECT_EQ(test::role_of_item(losses["series"][0]["data"][0]), "purple");
}

TEST(DotPlot, AnUnsettledRowIsHollowWhateverItsInterval) {
  std::vector<Dot> dots = four_dots();
  dots.front().is_unsettled = true;
  const nlohmann::json option = dot_plot(dots, "factor", "axis_factor", 1, Finding::kAbove);
  EXPECT_EQ(test::role_of_item(option["series"][0]["data"][0]), "hollow base");
  EXPECT_THAT(dot_plot_notes(dots, 1, "faster", "slower"), Contains(HasSubstr("2 points are hollow")));
}

TEST(DotPlot, SaysThatNoRowDiffers) {
  const std::vector<Dot> decided = four_dots(), undecided = {decided[2], decided[3]};
  const std::string note = "No row differs from the dashed line for certain.";
  EXPECT_THAT(dot_plot_notes(undecided, 1, "faster", "slower"), Contains(note));
  EXPECT_THAT(dot_plot_notes(decided, 1, "faster", "slower"), Not(Contains(note)));
}

TEST(DotPlot, WritesEstimatesWithTheirIntervals) {
  EXPECT_EQ(percent_with_interval(0.123, Interval{-0.01, 0.2}), "+12.3% [-1, +20]");
  EXPECT_EQ(percent_with_interval(-0.5, {}), "-50%");
}

}  // namespace
}  // namespace headroom
