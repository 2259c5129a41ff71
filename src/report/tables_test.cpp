#include "report/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "report/dashboard_table.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using test::make_dataset;
using test::make_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(ReportTables, HaveARowForEachMeasurement) {
  const Dataset dataset = make_dataset({make_file(test::ladder_results())});
  const std::vector<ReportTable> tables = report_tables(dataset);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].file, "report_table_measurements");
  EXPECT_THAT(tables[1].file, StartsWith("report_table_tiny-dit-"));
  for (const ReportTable& one : tables) {
    const std::string csv = one.table.to_csv();
    EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + std::ssize(dataset.measurements())) << csv;
    EXPECT_THAT(csv, HasSubstr("configuration,unit,median_ms,median_low_ms,median_high_ms,factor_on_baseline,"));
    EXPECT_THAT(csv, HasSubstr("arena+fuse,image,250,")) << "an image takes 5 steps of 50 ms";
  }
}

TEST(ReportTables, HaveAFactorWhereThereIsABaseline) {
  const std::string table = report_tables(make_dataset({make_file(test::ladder_results())}))[1].table.to_csv();
  EXPECT_THAT(table, testing::ContainsRegex("arena\\+fuse,image,250,[^,]*,[^,]*,(2|2\\.00000|1\\.99999)"));
}

TEST(ReportTables, ShowTheBaselineAsItself) {
  const Table table = report_tables(make_dataset({make_file(test::ladder_results())}))[1].table;
  EXPECT_THAT(table.to_markdown(), HasSubstr("| baseline | - |"));
  EXPECT_THAT(table.to_csv(), testing::ContainsRegex("baseline,image,500,[^,]*,[^,]*,1,,,"));
}

TEST(ReportTables, HaveColumnsOfTheQualityThatWasMeasured) {
  Result judged = test::make_result({"fuse"}, {1, 2});
  test::set_quality(judged, "accuracy", 0.5, Interval{0.4, 0.6});
  test::set_quality(judged, "psnr_db", {}, {}, "identical");
  const Table table = report_tables(make_dataset({make_file({test::make_result({}, {1, 2}), judged})}))[1].table;
  EXPECT_THAT(table.to_csv(), HasSubstr("accuracy,accuracy_low,accuracy_high,psnr_db,"));
  EXPECT_THAT(table.to_csv(), HasSubstr(",0.5,0.4,0.6,,,,"));
  EXPECT_THAT(table.to_markdown(), HasSubstr("| 0.500 [0.400, 0.600] | identical |"));
  EXPECT_THAT(table.to_markdown(), HasSubstr("| accuracy | PSNR in dB |"));
}

TEST(ReportTables, NameTheFilesOfRepetitions) {
  const ResultFile file = make_file({test::make_result({}, {1, 2}), test::make_result({"fuse"}, {1, 2})});
  const auto all = [](std::vector<ResultFile> files) {
    return report_tables(make_dataset(std::move(files))).front().table.to_markdown();
  };
  EXPECT_THAT(all({file}), Not(HasSubstr("file-0.json")));
  EXPECT_THAT(all({file, file}), AllOf(HasSubstr("file-0.json"), HasSubstr("file-1.json"))) << "else rows are equal";
}

TEST(MeasurementTable, HasTheNumberOfTimedTrialsAndTheBaselineAsItself) {
  std::vector<Result> results = test::ladder_results();  // of six steps each
  results[0].trials.push_back(make_series("load", Trials{.wall_ms = {1, 2, 3}}));
  const Dataset dataset = make_dataset({make_file(results)});
  const std::string html = measurement_table(dataset, views_of(dataset));
  EXPECT_THAT(html, HasSubstr("data-key=\"6\"><button type=\"button\" class=\"trials\" data-index=\"0\""));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\" data-key=\"1\">baseline</td>"));
}

TEST(ReportTables, AreNamedByWhatTheyAreOf) {
  Subject hostile = test::denoise_subject();
  hostile.name = "../../etc/\"x\" & co";
  std::vector<Result> results = {test::make_result({}, {1, 2}), test::make_result({"fuse"}, {1, 2}),
                                 test::make_result({}, {1, 2}, hostile), test::make_result({"fuse"}, {1, 2}, hostile)};
  results[2].id += "-2";
  results[3].id += "-2";
  std::set<std::string> files;
  for (const ReportTable& one : report_tables(make_dataset({make_file(results)}))) {
    EXPECT_TRUE(files.insert(one.file).second) << one.file;
    EXPECT_EQ(one.file.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-"), std::string::npos) << one.file;
  }
  EXPECT_EQ(files.size(), 3U);
}

TEST(ReportTables, ReplaceThoseOfAnEarlierReport) {
  const TempFolder folder;
  const Dataset dataset = make_dataset({make_file(test::ladder_results())});
  write_file_atomically(folder / "table_of_mine.csv", std::string_view("x"));
  EXPECT_EQ(write_report_tables(dataset, folder.path(), {TableFormat::kCsv, TableFormat::kLatex}).size(), 4U);
  EXPECT_TRUE(std::filesystem::exists(folder / "report_table_measurements.tex"));
  EXPECT_EQ(write_report_tables(dataset, folder.path(), {TableFormat::kCsv}).size(), 2U);
  EXPECT_FALSE(std::filesystem::exists(folder / "report_table_measurements.tex"));
  EXPECT_TRUE(std::filesystem::exists(folder / "report_table_measurements.csv"));
  EXPECT_TRUE(std::filesystem::exists(folder / "table_of_mine.csv"));
  EXPECT_TRUE(write_report_tables(dataset, folder.path(), {}).empty());
  EXPECT_FALSE(std::filesystem::exists(folder / "report_table_measurements.csv"));
}

}  // namespace
}  // namespace headroom
