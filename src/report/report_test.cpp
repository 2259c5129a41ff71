#include "report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/test_util.hpp"
#include "report/html.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using test::make_dataset;
using test::make_file;

TEST(WriteReport, RemovesChartsOfEarlierResultsAndNothingElse) {
  const TempFolder folder;
  const ReportOptions options{.formats = {ChartFormat::kHtml}};
  const auto is_there = [&](const char* name) { return fs::exists(folder.path() / name); };
  (void)write_report(make_dataset({make_file(test::ladder_results())}), folder.path(), options);
  for (const char* name : {"cumulative_impact-2.png", "cumulative_impact-b.png", "ladder.png", "arena.png"})
    write_file_atomically(folder.path() / name, std::string_view("x"));
  ASSERT_TRUE(is_there("cumulative_impact.html"));
  (void)write_report(make_dataset({make_file({test::make_result({}, {1, 2}), test::make_result({"fuse"}, {1, 2})})}),
                     folder.path(), options);
  EXPECT_TRUE(is_there("speedup_comparison.html"));
  EXPECT_TRUE(is_there("performance_charts.js"));
  EXPECT_FALSE(is_there("cumulative_impact.html"));
  EXPECT_FALSE(is_there("cumulative_impact-2.png"));
  for (const char* name : {"cumulative_impact-b.png", "ladder.png", "arena.png"}) EXPECT_TRUE(is_there(name)) << name;
  (void)write_report(make_dataset({make_file(test::ladder_results())}), folder.path(), {.formats = {}});
  EXPECT_FALSE(is_there("speedup_comparison.html"));
  EXPECT_FALSE(is_there("performance_charts.js"));
}

TEST(WriteReport, ChartsShareOneLibrary) {
  const TempFolder folder;
  const ReportFiles written =
      write_report(make_dataset({make_file(test::ladder_results())}), folder.path(), {.formats = {ChartFormat::kHtml}});
  for (const std::string& chart : written.charts)
    EXPECT_LT(fs::file_size(folder.path() / (chart + ".html")), 100'000U) << chart;
}

TEST(EncodeBase64, IsThatOfTheStandard) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("f"), "Zg==");
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  EXPECT_EQ(encode_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encode_base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace headroom
