#include "measure/gates/history.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace headroom {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The file of the `day`-th revision, with one benchmark of the given time.
ResultFile file(int day, double ms, const std::string& cpu = "Xeon") {
  ResultFile file;
  file.created = fmt::format("2026-01-{:02}T00:00:00Z", day);
  file.machine.cpu = cpu;
  file.machine.cpu_isa = "amx";
  file.machine.logical_cores = file.machine.allowed_cores = 16;
  file.machine.memory_bytes = 135'148'564'480;
  file.machine.build =
      BuildInfo{.version = "1", .git_revision = fmt::format("rev{}", day), .type = "Release", .compiler = "gcc"};
  file.results.push_back(
      {.id = "a",
       .name = "baseline",
       .subject = {.kind = SubjectKind::kModel, .name = "m", .request = {{"batch", 1}}},
       .source = {},
       .configuration =
           {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = 2, .baseline_dtype = {}},
       .trials = {make_series("forward", Trials{.wall_ms = {ms, 1.01 * ms, 0.99 * ms}})},
       .memory = {},
       .quality = {},
       .tags = {},
       .plan = {}});
  return file;
}

/// Ten revisions, 15% slower from the seventh on, in shuffled order.
std::vector<ResultFile> slower_from_the_seventh() {
  std::vector<ResultFile> files;
  for (int day = 1; day <= 10; ++day) files.push_back(file(day, (day < 7 ? 100 : 115) + 0.3 * (day % 3)));
  std::ranges::reverse(files);
  return files;
}

TEST(History, FindsTheRevisionOfAStep) {
  const std::vector<BenchmarkHistory> histories = make_histories(slower_from_the_seventh());
  ASSERT_EQ(histories.size(), 1U);
  EXPECT_EQ(histories[0].name, "m baseline, forward");
  EXPECT_EQ(histories[0].machine, "Xeon (amx), 16 cores, 126 GiB, 2 threads");
  ASSERT_EQ(histories[0].points.size(), 10U);
  EXPECT_EQ(histories[0].points[0].revision, "rev1");
  ASSERT_EQ(histories[0].steps.size(), 1U);
  EXPECT_EQ(histories[0].steps[0].index, 6U);
  EXPECT_NEAR(histories[0].steps[0].before, 100.3, 0.3);
  EXPECT_NEAR(histories[0].steps[0].after, 115.3, 0.3);
  const std::string table = to_table(histories).text();
  EXPECT_THAT(table, HasSubstr("+15.0%"));
  EXPECT_THAT(table, HasSubstr("rev6"));
  EXPECT_THAT(table, HasSubstr("rev7"));
  EXPECT_THAT(table, HasSubstr("2026-01-07T00:00:00Z"));
  EXPECT_EQ(to_json(histories)["histories"][0]["steps"][0]["index"], 6);
}

TEST(History, KeepsMachinesAndWorkApart) {
  std::vector<ResultFile> files = slower_from_the_seventh();
  files.push_back(file(11, 50, "EPYC"));
  files.push_back(file(12, 30));
  files.back().results[0].subject.request["batch"] = 2;
  files.push_back(file(13, 40));
  files.back().machine.cpu_isa = "avx512_bf16";
  files.push_back(file(14, 40));
  files.back().machine.logical_cores = files.back().machine.allowed_cores = 2;
  const std::vector<BenchmarkHistory> histories = make_histories(files);
  ASSERT_EQ(histories.size(), 5U);
  EXPECT_EQ(histories.back().name, "m baseline (batch 2), forward");
  for (const BenchmarkHistory& history : histories)
    EXPECT_EQ(history.steps.size(), history.points.size() == 10 ? 1U : 0U);
}

TEST(History, NeverFindsAStepWithinARevision) {
  // The machine became slower while one revision was measured ten times, after six others.
  std::vector<ResultFile> files;
  for (int day = 1; day <= 16; ++day) {
    files.push_back(file(day, (day <= 11 ? 100 : 130) + 0.3 * (day % 3)));
    if (day > 6) files.back().machine.build->git_revision = "rev7";
  }
  const std::vector<BenchmarkHistory> histories = make_histories(files);
  ASSERT_EQ(histories.size(), 1U);
  ASSERT_EQ(histories[0].points.size(), 7U);
  EXPECT_EQ(histories[0].points[6].runs, 10);
  EXPECT_EQ(histories[0].points[6].created, "2026-01-07T00:00:00Z");
  EXPECT_NEAR(histories[0].points[6].median_ms, 115, 0.5);
  EXPECT_THAT(histories[0].steps, IsEmpty());
  EXPECT_EQ(to_json(histories)["histories"][0]["points"][6]["runs"], 10);
}

TEST(History, OfAnUnknownRevisionIsOnePoint) {
  std::vector<ResultFile> files = slower_from_the_seventh();
  for (ResultFile& one : files) one.machine.build.reset();
  EXPECT_EQ(make_histories(files)[0].points.size(), 1U);
  int version = 0;
  for (ResultFile& one : files) one.results[0].source = {.name = "pytorch", .version = fmt::format("2.{}", version++)};
  EXPECT_EQ(make_histories(files)[0].points.size(), 10U) << "another program has versions";
}

TEST(History, KeepsBaselinesApart) {
  std::vector<ResultFile> files = {file(1, 10), file(2, 5)};
  files[1].results[0].configuration.baseline_dtype = "bf16";
  EXPECT_EQ(make_histories(files).size(), 2U);
}

TEST(History, LeavesOutWhatWasNotTimed) {
  ResultFile empty = file(1, 10);
  empty.results[0].trials.clear();
  EXPECT_THAT(make_histories({empty}), IsEmpty());
  EXPECT_THAT(to_table(make_histories({file(1, 10), file(2, 10)})).text(),
              HasSubstr("no step found: that takes 8 revisions, and the longest history has 2\n"));
  std::vector<ResultFile> level;
  for (int day = 1; day <= 8; ++day) level.push_back(file(day, 10 + 0.1 * (day % 3)));
  EXPECT_THAT(to_table(make_histories(level)).text(), HasSubstr("no step found\n"));
  EXPECT_EQ(to_table(std::vector<BenchmarkHistory>{}).text(),
            "no step found: that takes 8 revisions, and the longest history has 1\n")
      << "a table without rows is not printed";
}

}  // namespace
}  // namespace headroom
