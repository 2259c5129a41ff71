#include "report/chart_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "report/charts/charts.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using test::make_file;

std::vector<Result> two_of(const Subject& subject) {
  return {test::make_result({}, {10, 11, 12}, subject), test::make_result({"arena"}, {8, 9, 10}, subject)};
}

Subject subject_of(std::string name, std::int64_t rows = 16, std::int64_t images = 2) {
  return {.kind = SubjectKind::kModel,
          .name = std::move(name),
          .request = {{"images", images}, {"steps", 10}, {"token_rows", rows}, {"token_columns", rows}}};
}

std::set<std::string> names_of(std::vector<ResultFile> files) {
  const Dataset dataset = test::make_dataset(std::move(files));
  std::set<std::string> names;
  for (const Chart& chart : draw_charts(dataset).charts) {
    EXPECT_TRUE(names.insert(chart.file).second) << chart.file;
    EXPECT_TRUE(may_be_chart_name(chart.file)) << chart.file;
  }
  return names;
}

TEST(FileSlug, KeepsNothingThatAPathOrMarkupNeeds) {
  EXPECT_EQ(file_slug("FLUX.1-dev"), "flux-1-dev");
  EXPECT_EQ(file_slug("../../etc/passwd"), "etc-passwd");
  EXPECT_EQ(file_slug("<img src=x>\n"), "img-src-x");
  EXPECT_EQ(file_slug("\u4e16\u754c"), "");
  EXPECT_EQ(file_slug("a---b__c"), "a-b__c");
  EXPECT_EQ(file_slug(std::string(500, 'x')).size(), 48U);
}

TEST(FileSlug, LosesWholeWordsAndStaysDistinct) {
  const std::string one = file_slug("a transformer of many blocks on a machine of 126 GiB", 40);
  EXPECT_THAT(one, testing::MatchesRegex("a-transformer-of-many-blocks-on-a-[0-9a-f]{6}"));
  EXPECT_NE(file_slug("a transformer of many blocks on a machine of 252 GiB", 40), one);
  EXPECT_EQ(file_slug("a transformer of many blocks on a machine", 41), "a-transformer-of-many-blocks-on-a-machine");
  EXPECT_NE(file_slug(std::string(50, 'x')), file_slug(std::string(51, 'x')));
}

TEST(ChartNames, CarryModelSizeBatchAndSteps) {
  Subject subject = subject_of("Tiny.Dit", 16, 4);
  EXPECT_THAT(names_of({make_file(two_of(subject))}),
              testing::Contains("speedup_comparison-tiny-dit-16x16tokens-b4-10steps"));
  subject.token_pixels = 8;
  EXPECT_THAT(names_of({make_file(two_of(subject))}),
              testing::Contains("speedup_comparison-tiny-dit-128x128-b4-10steps"));
}

TEST(ChartNames, CarryTheGpu) {
  std::vector<Result> results = two_of(subject_of("a"));
  for (Result& result : results) {
    result.configuration.device = "cuda";
    result.configuration.gpu = UsedGpu{.name = "NVIDIA H200", .uuid = "GPU-1"};
  }
  EXPECT_THAT(names_of({make_file(results)}), testing::Contains("speedup_comparison-a-16x16tokens-b2-10steps-h200"));
}

TEST(ChartNames, StayWhenOtherResultsAreAdded) {
  const ResultFile first = make_file(two_of(subject_of("a", 16)), "2026-01-02T00:00:00Z");
  const std::set<std::string> alone = names_of({first});
  ResultFile other_machine = make_file(two_of(subject_of("a", 16)), "2026-01-03T00:00:00Z");
  other_machine.machine.cpu = "Another CPU";
  const std::set<std::string> more =
      names_of({make_file(two_of(subject_of("b", 16)), "2026-01-01T00:00:00Z"),
                make_file(two_of(subject_of("a", 32)), "2026-01-01T00:00:00Z"), other_machine, first});
  for (const std::string& name : alone) EXPECT_TRUE(more.contains(name)) << name;
}

TEST(ChartNames, TellWorksOfOneNameApart) {
  // No character of these names is allowed in a file name, and nothing else distinguishes the works.
  std::vector<ResultFile> files;
  for (const char* name : {"\u4e16", "\u754c", "..", "/", "<b>", "B"})
    files.push_back(make_file(two_of(subject_of(name)), "2026-01-02T00:00:00Z"));
  for (const std::string& name : names_of(std::move(files)))
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_"), std::string::npos) << name;
}

TEST(ChartNames, DoNotDependOnTheOrderOfTheFiles) {
  std::vector<ResultFile> files = {make_file(two_of(subject_of("x.y")), "2026-01-02T00:00:00Z"),
                                   make_file(two_of(subject_of("x y")), "2026-01-03T00:00:00Z"),
                                   make_file(two_of(subject_of("x/y")), "2026-01-04T00:00:00Z")};
  const auto named = [](std::vector<ResultFile> all) {
    const Dataset dataset = test::make_dataset(std::move(all));
    std::set<std::pair<std::string, std::string>> pairs;
    for (const Chart& chart : draw_charts(dataset).charts) pairs.emplace(chart.file, chart.subtitle);
    return pairs;
  };
  const auto one = named(files);
  std::ranges::reverse(files);
  EXPECT_EQ(named(files), one);
}

TEST(ChartNames, AreKnownByTheirForm) {
  EXPECT_TRUE(may_be_chart_name("history-a-b"));
  EXPECT_FALSE(may_be_chart_name("historya"));
  EXPECT_TRUE(is_numbered_chart_name("history-12"));
  EXPECT_TRUE(is_numbered_chart_name("history"));
  EXPECT_FALSE(is_numbered_chart_name("history-"));
  EXPECT_FALSE(is_numbered_chart_name("history-2b"));
}

}  // namespace
}  // namespace headroom
