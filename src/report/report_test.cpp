#include "report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "report/render/html.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using test::make_dataset;
using test::make_file;

/// A name of a chart of denoise_subject().
std::string chart_of(const std::string& kind) { return kind + "-tiny-dit-16x16tokens-b2-10steps"; }

Dataset ladder_dataset() { return make_dataset({make_file(test::ladder_results())}); }

TEST(WriteReport, RemovesChartsOfEarlierResultsAndNothingElse) {
  const TempFolder folder;
  const ReportOptions options{.formats = {ChartFormat::kHtml}};
  const auto is_there = [&](const std::string& name) { return fs::exists(folder.path() / name); };
  (void)write_report(ladder_dataset(), folder.path(), options);
  const std::vector<std::string> others = {"cumulative_impact-b.png", "cumulative_impact-mine.html", "ladder.png",
                                           "arena.png"};
  for (const std::string& name : others) write_file_atomically(folder.path() / name, std::string_view("x"));
  // Chart names of older reports.
  for (const char* name : {"cumulative_impact-2.png", "cumulative_impact.png"})
    write_file_atomically(folder.path() / name, std::string_view("x"));
  ASSERT_TRUE(is_there(chart_of("cumulative_impact") + ".html"));
  (void)write_report(make_dataset({make_file({test::make_result({}, {1, 2}), test::make_result({"fuse"}, {1, 2})})}),
                     folder.path(), options);
  EXPECT_TRUE(is_there(chart_of("speedup_comparison") + ".html"));
  EXPECT_TRUE(is_there("performance_charts.js"));
  EXPECT_FALSE(is_there(chart_of("cumulative_impact") + ".html"));
  EXPECT_FALSE(is_there("cumulative_impact-2.png"));
  EXPECT_FALSE(is_there("cumulative_impact.png"));
  for (const std::string& name : others) EXPECT_TRUE(is_there(name)) << name;
  (void)write_report(ladder_dataset(), folder.path(), {.formats = {}});
  EXPECT_FALSE(is_there(chart_of("speedup_comparison") + ".html"));
  EXPECT_FALSE(is_there("performance_charts.js"));
}

TEST(WriteReport, RemovesNothingThatAFileNamesInTheIndex) {
  const TempFolder folder;
  const auto write = [&] {
    return write_report(Dataset({{"cumulative_impact-mine: x", make_file(test::ladder_results())}}), folder.path(),
                        {.formats = {}});
  };
  (void)write();
  write_file_atomically(folder.path() / "cumulative_impact-mine.png", std::string_view("x"));
  (void)write();
  EXPECT_TRUE(fs::exists(folder.path() / "cumulative_impact-mine.png"));
}

TEST(WriteReport, IndexNamesEachChartOnceWithItsWork) {
  const TempFolder folder;
  Subject other = test::denoise_subject();
  other.request["images"] = 4;
  std::vector<Result> results = test::ladder_results();
  for (Result& result : test::ladder_results()) {
    result.subject = other;
    result.id += " of four";
    results.push_back(result);
  }
  const ReportFiles written = write_report(make_dataset({make_file(results)}), folder.path(), {.formats = {}});
  EXPECT_EQ(std::set<std::string>(written.charts.begin(), written.charts.end()).size(), written.charts.size());
  std::set<std::string> titles;
  const std::string index = read_file(folder.path() / "index.md");
  for (const std::string& chart : written.charts) {
    const std::size_t at = index.find("- " + chart + ": ");
    ASSERT_NE(at, std::string::npos) << chart;
    const std::size_t title = at + chart.size() + 4;
    EXPECT_TRUE(titles.insert(index.substr(title, index.find('\n', title) - title)).second) << chart;
  }
}

TEST(WriteReport, IndexSaysWhereChartsAreThatHaveNoPicture) {
  const auto index_of = [](const std::set<ChartFormat>& formats) {
    const TempFolder folder;
    static_cast<void>(write_report(ladder_dataset(), folder.path(), {.formats = formats}));
    return read_file(folder.path() / "index.md");
  };
  const std::string note = "No pictures were asked for (`--format`): these charts are in the dashboard alone.";
  EXPECT_NE(index_of({}).find(note), std::string::npos);
  EXPECT_EQ(index_of({ChartFormat::kSvg}).find(note), std::string::npos);
}

TEST(WriteReport, ChartsShareOneLibrary) {
  const TempFolder folder;
  const ReportFiles written = write_report(ladder_dataset(), folder.path(), {.formats = {ChartFormat::kHtml}});
  for (const std::string& chart : written.charts)
    EXPECT_LT(fs::file_size(folder.path() / (chart + ".html")), 100'000U) << chart;
}

TEST(WriteReport, TellsHowFarItIs) {
  const TempFolder folder;
  std::vector<std::string> phases;
  std::int64_t last = 0, total = -1;
  ReportOptions options{.formats = {ChartFormat::kHtml}};
  options.progress = [&](std::string_view phase, std::int64_t done, std::int64_t of) {
    if (phases.empty() || phases.back() != phase) phases.emplace_back(phase);
    if (phase != "drawing charts") return;
    EXPECT_GE(done, last);
    last = done;
    total = of;
  };
  const ReportFiles written = write_report(ladder_dataset(), folder.path(), options);
  EXPECT_THAT(phases, testing::ElementsAre("choosing charts", "drawing charts", "writing the dashboard"));
  EXPECT_EQ(last, std::ssize(written.charts));
  EXPECT_EQ(total, std::ssize(written.charts));
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
