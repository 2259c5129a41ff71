#include "report/advice/pareto.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "report/charts/charts.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A configuration's steps around `ms`, and its quality.
Result judged(const std::string& name, double ms, double spread, const std::string& metric, double quality,
              std::optional<Interval> interval = {}) {
  Result result = test::make_result(
      name.empty() ? std::vector<std::string>{} : std::vector{name},
      {ms - spread, ms - spread / 2, ms, ms, ms + spread / 2, ms + spread, ms - spread, ms, ms, ms + spread});
  test::set_quality(result, metric, quality, interval);
  return result;
}

/// The names of the points on the frontier of the first chart, from left to right.
std::vector<std::string> frontier_of(const Drawn& drawn) {
  std::vector<std::string> names;
  for (const json& item : drawn.charts.at(0).option["series"][2]["data"])
    for (const json& row : item["tip"]["rows"])
      if (row[0] == "frontier" && row[1].get<std::string>().starts_with("on it")) names.push_back(item["text"]);
  return names;
}

TEST(Pareto, NoiseOfTheTimeBeatsNothing) {
  const Dataset dataset = test::make_dataset({test::make_file(
      {judged("fuse", 100, 5, "frechet_distance", 0.1), judged("arena", 101, 5, "frechet_distance", 0.1)})});
  EXPECT_THAT(frontier_of(charts::frechet_time(dataset)), ElementsAre("fuse", "arena"));
  const Dataset sure = test::make_dataset({test::make_file(
      {judged("fuse", 100, 5, "frechet_distance", 0.1), judged("arena", 150, 5, "frechet_distance", 0.1)})});
  const Drawn drawn = charts::frechet_time(sure);
  EXPECT_THAT(frontier_of(drawn), ElementsAre("fuse"));
  const json& points = drawn.charts[0].option["series"][2]["data"];
  EXPECT_THAT(points.front().dump(), HasSubstr("beaten by fuse"));
  EXPECT_EQ(points.back()["text"], "fuse") << "drawn above those that it beats";
}

TEST(Pareto, OfEqualTimesTheBetterInQualityWins) {
  const Interval good{0.09, 0.11}, bad{0.28, 0.32};
  const Dataset dataset = test::make_dataset({test::make_file(
      {judged("fuse", 100, 5, "frechet_distance", 0.3, bad), judged("arena", 101, 5, "frechet_distance", 0.1, good)})});
  EXPECT_THAT(frontier_of(charts::frechet_time(dataset)), ElementsAre("arena"))
      << "one percent within noise is no reason for three times the distance";
}

TEST(Pareto, ThePairedDifferenceDecidesOverIntervalsThatOverlap) {
  const Interval wide{0.9, 0.99};
  std::vector<Result> results = {judged("", 100, 5, "accuracy", 0.96, wide),
                                 judged("fuse", 90, 5, "accuracy", 0.94, wide)};
  for (Result& result : results) test::set_memory(result, 4'000'000, 4'000'000, 4'000'000);
  EXPECT_THAT(frontier_of(charts::accuracy_size(test::make_dataset({test::make_file(results)}))),
              ElementsAre("fuse", "baseline"))
      << "of one size, upwards";
  test::set_quality(results[1], "accuracy_difference", -0.02, Interval{-0.03, -0.01});
  EXPECT_THAT(frontier_of(charts::accuracy_size(test::make_dataset({test::make_file(results)}))),
              ElementsAre("baseline"));
}

TEST(Pareto, NumbersCoverNoOtherPoint) {
  std::vector<Result> results;
  const std::pair<const char*, double> times[] = {{"bf16", 10},   {"fuse", 100},  {"arena", 104},
                                                  {"flash", 200}, {"hoist", 300}, {"", 400}};
  for (const auto& [name, ms] : times) results.push_back(judged(name, ms, 1, "frechet_distance", 0.2));
  const json option = charts::frechet_time(test::make_dataset({test::make_file(results)})).charts.at(0).option;
  const json& texts = option["series"][3];
  EXPECT_EQ(texts["data"][0]["label"]["position"], "right");
  EXPECT_EQ(texts["data"][1]["label"]["position"], "bottom") << "on its right is the next point";
  EXPECT_EQ(texts["data"][2]["label"]["position"], "right");
  EXPECT_GT(texts["z"], option["series"][2]["z"]);
}

TEST(Pareto, AFrontierIsNeverEmptyAndItsLineNeverFalls) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Result> results;
    for (int i = 0; i < 12; ++i) {
      const double distance = 0.1 + unit(random) / 5, half = unit(random) / 10;
      results.push_back(judged(i == 0 ? "" : "steps=" + std::to_string(i + 1), 100 + 30 * unit(random),
                               30 * unit(random), "frechet_distance", distance,
                               Interval{distance - half, distance + half}));
    }
    const Drawn drawn = charts::frechet_time(test::make_dataset({test::make_file(std::move(results))}));
    ASSERT_THAT(frontier_of(drawn), Not(IsEmpty()));
    const json& line = drawn.charts[0].option["series"][0]["data"];
    ASSERT_FALSE(line.empty());
    for (std::size_t i = 1; i < line.size(); ++i) ASSERT_LT(line[i][1], line[i - 1][1]) << line;
  }
}

}  // namespace
}  // namespace headroom
