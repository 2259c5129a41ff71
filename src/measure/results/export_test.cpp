#include "measure/results/export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace headroom {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ResultFile file() {
  ResultFile file;
  file.created = "2026-01-01T00:00:00Z";
  file.machine.logical_cores = 4;
  file.results.push_back(
      {.id = "a",
       .name = "all, \"fast\"|slow",
       .subject = {.kind = SubjectKind::kModel, .name = "m", .request = {}},
       .source = {},
       .configuration =
           {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = 12, .baseline_dtype = {}},
       .trials = {make_series("forward", Trials{.wall_ms = {1, 2, 3}})},
       .memory = {},
       .quality = {},
       .tags = {},
       .plan = {}});
  return file;
}

TEST(Export, DrawsATable) {
  EXPECT_THAT(to_summary_table(file()).text(), HasSubstr("forward"));
  EXPECT_THAT(to_summary_table(file()).text(), HasSubstr("2.00 ms"));
}

TEST(Export, QuotesCsvFields) {
  const std::string csv = to_summary_table(file()).to_string(TableFormat::kCsv);
  EXPECT_THAT(csv, StartsWith("benchmark,series,source,device,n,processes,median_ms,"));
  EXPECT_THAT(csv,
              HasSubstr("\n\"m all, \"\"fast\"\"|slow\",forward,headroom,cpu,3,1,2,,,1.5,2.5,2,1,1,3,2.9,2.98,0,0\n"));
}

TEST(Export, EscapesMarkdownCells) {
  EXPECT_THAT(to_summary_table(file()).to_string(TableFormat::kMarkdown),
              HasSubstr("| m all, \"fast\"\\|slow | forward | 3 |"));
  ResultFile hostile = file();
  hostile.results[0].subject.name = "<img src=x>\n# m";
  hostile.results[0].trials[0].what = "[a](http://b)";
  EXPECT_THAT(to_summary_table(hostile).to_string(TableFormat::kMarkdown),
              HasSubstr("| \\<img src=x\\>\\\\x0a\\# m all, \"fast\"\\|slow | \\[a\\](http\\://b) | 3 |"));
}

TEST(Export, WritesWhatGoogleBenchmarkWrites) {
  const nlohmann::json json = to_google_benchmark(file());
  EXPECT_EQ(json["context"]["num_cpus"], 4);
  const nlohmann::json& benchmarks = json["benchmarks"];
  ASSERT_EQ(benchmarks.size(), 7U);  // three repetitions and four aggregates
  EXPECT_EQ(benchmarks[1]["run_type"], "iteration");
  EXPECT_EQ(benchmarks[1]["repetition_index"], 1);
  EXPECT_EQ(benchmarks[1]["real_time"], 2.0);
  EXPECT_EQ(benchmarks[1]["time_unit"], "ms");
  EXPECT_EQ(benchmarks[4]["aggregate_name"], "median");
  EXPECT_EQ(benchmarks[4]["real_time"], 2.0);
  EXPECT_EQ(benchmarks[6]["aggregate_unit"], "percentage");
  EXPECT_EQ(benchmarks[6]["real_time"], 0.5);
  for (const nlohmann::json& entry : benchmarks) EXPECT_EQ(entry["threads"], 12);
  ResultFile unknown = file();
  unknown.results[0].configuration.threads.reset();
  EXPECT_FALSE(to_google_benchmark(unknown)["benchmarks"][0].contains("threads"));
}

}  // namespace
}  // namespace headroom
