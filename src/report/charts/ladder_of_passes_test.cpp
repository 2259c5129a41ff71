#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<Result> ladder_over(const Subject& subject, const std::string& what) {
  const auto around = [](double ms) { return std::vector<double>{ms * 0.99, ms, ms, ms, ms, ms * 1.01}; };
  return {test::make_result({}, around(40), subject, what), test::make_result({"arena"}, around(20), subject, what),
          test::make_result({"fuse"}, around(40), subject, what),
          test::make_result({"arena", "fuse"}, around(10), subject, what)};
}

/// Expects this unit in titles and axes of the charts of a ladder.
void expect_unit(const Dataset& dataset, const std::string& unit) {
  for (const Drawn& drawn : {charts::speedup_comparison(dataset), charts::cumulative_impact(dataset)}) {
    ASSERT_THAT(drawn.charts, SizeIs(1));
    EXPECT_THAT(drawn.charts[0].title, HasSubstr("ime per " + unit)) << drawn.charts[0].file;
    EXPECT_EQ(drawn.charts[0].option["xAxis"]["name"], "time per " + unit);
  }
  const Drawn flow = charts::optimization_flow(dataset);
  ASSERT_THAT(flow.charts, SizeIs(1));
  EXPECT_THAT(flow.charts[0].title, HasSubstr("time per " + unit));
  EXPECT_THAT(charts::switch_synergy(dataset).charts, SizeIs(1));
}

TEST(LadderCharts, OfAUNetAreOfAForwardPass) {
  const Subject unet{.name = "a-unet", .request = {{"batch", 1}, {"width", 512}, {"height", 768}, {"pass", "forward"}}};
  expect_unit(test::make_dataset({test::make_file(ladder_over(unet, "forward"))}), "forward pass");
}

TEST(LadderCharts, OfAStreamAreOfAFrame) {
  const Subject stream{.kind = SubjectKind::kStream, .name = "live", .request = {{"width", 64}, {"height", 64}}};
  expect_unit(test::make_dataset({test::make_file(ladder_over(stream, "frame"))}), "frame");
}

}  // namespace
}  // namespace headroom
