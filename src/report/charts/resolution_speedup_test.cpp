#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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

/// A U-Net's pass at 256x256, 512x256, 256x512 and 512x512. The baseline's time grows with pixels^1.5, that of
/// `fuse` with pixels; both take 64 ms at the smallest size.
Dataset sizes_dataset(std::size_t sizes, bool reversed = false) {
  const std::vector<std::pair<int, int>> all = {{256, 256}, {512, 256}, {256, 512}, {512, 512}};
  std::vector<Result> results;
  for (std::size_t i = 0; i < sizes; ++i) {
    const auto [width, height] = all[reversed ? sizes - 1 - i : i];
    const Subject subject{.name = "a-unet", .request = {{"width", width}, {"height", height}, {"pass", "forward"}}};
    const double scale = width * height / 65536.0;
    for (const bool is_fused : {false, true}) {
      const double ms = 64 * std::pow(scale, is_fused ? 1 : 1.5);
      results.push_back(test::make_result(is_fused ? std::vector<std::string>{"fuse"} : std::vector<std::string>{},
                                          {ms * 0.999, ms, ms, ms, ms, ms * 1.001}, subject, "forward"));
      results.back().id = fmt::format("{} {} {}", width, height, is_fused);
    }
  }
  return test::make_dataset({test::make_file(results)});
}

TEST(ResolutionSpeedup, DrawsFactorsBySizeSortedByPixels) {
  const Drawn drawn = charts::resolution_speedup(sizes_dataset(4, /*reversed=*/true));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_THAT(option["xAxis"]["data"], ElementsAre("256x256", "256x512", "512x256", "512x512"));
  EXPECT_EQ(option["series"][0]["name"], "fuse");
  EXPECT_THAT(test::items_of(option["series"][0], "text"), ElementsAre("1.00x", "1.41x", "1.41x", "2.00x"));
  EXPECT_THAT(option["series"][1]["data"], SizeIs(4)) << "an interval for each";
  EXPECT_THAT(drawn.charts.front().notes, Contains("n = 6 trials of each or more."));
}

TEST(ResolutionSpeedup, NeedsTwoSizesWithTheirBaselines) {
  EXPECT_THAT(charts::resolution_speedup(sizes_dataset(1)).charts, IsEmpty());
  EXPECT_THAT(charts::resolution_speedup(sizes_dataset(1)).left_out, HasSubstr("headroom sweep --resolution"));
}

TEST(ResolutionFit, SaysTheExponents) {
  const Drawn drawn = charts::resolution_fit(sizes_dataset(4));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const Chart& chart = drawn.charts.front();
  EXPECT_EQ(chart.title, "Time per forward pass over pixels, with a fitted power law");
  EXPECT_THAT(chart.notes, Contains("baseline: time scales with pixels^1.50 [1.50, 1.50]."));
  EXPECT_THAT(chart.notes, Contains("fuse: time scales with pixels^1.00 [1.00, 1.00]."));
  EXPECT_EQ(chart.option["series"][0]["name"], "baseline: pixels^1.50 [1.50, 1.50]");
  EXPECT_EQ(chart.option["series"][2]["data"][3]["value"], json::parse("[262144.0, 512.0]"));
  EXPECT_THAT(charts::resolution_fit(sizes_dataset(2)).charts, IsEmpty()) << "two points fit any power law";
  EXPECT_THAT(charts::resolution_fit(sizes_dataset(2)).left_out, HasSubstr("three image sizes"));
}

}  // namespace
}  // namespace headroom
