#include "report/charts/charts.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using test::ladder_results;
using test::make_dataset;
using test::make_file;
using test::make_peer;
using test::make_result;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

std::vector<double> around(double ms) { return {ms - 1, ms, ms, ms, ms, ms + 1}; }

Dataset ladder_dataset() { return make_dataset({make_file(ladder_results())}); }

/// The values of one member over all items of a series.
std::vector<json> column(const json& series, const std::string& key) {
  std::vector<json> values;
  for (const json& item : series["data"]) values.push_back(item.is_object() ? item.value(key, json()) : item);
  return values;
}
/// The text under a name in the tooltip of an item.
std::string tip_row(const json& item, const std::string& name) {
  for (const json& row : item.at("tip").at("rows"))
    if (row[0] == name) return row[1];
  return "(no such row)";
}
Dataset baseline_only() { return make_dataset({make_file({make_result({}, {1, 2, 3})})}); }

TEST(SpeedupComparison, ShowsBaselineSinglesAllAndPeers) {
  std::vector<Result> results = ladder_results();
  results.push_back(make_peer("compiled", around(60)));
  const Drawn drawn = charts::speedup_comparison(make_dataset({make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const Chart& chart = drawn.charts.front();
  EXPECT_EQ(chart.file, "speedup_comparison");
  EXPECT_EQ(chart.title, "What each optimization does to the time per image");
  EXPECT_EQ(chart.subtitle,
            "tiny-dit, 16x16 image tokens, 2 images at once, 10 steps; Test CPU, 2 of 4 cores, 1.00 GiB, 2 threads");
  EXPECT_THAT(chart.option["yAxis"]["data"],
              ElementsAre("baseline", "arena", "fuse", "steps=5", "all together", "pytorch compiled"));
  EXPECT_THAT(column(chart.option["series"][0], "value"), ElementsAre(500, 400, 625, 250, 125, 300));
  EXPECT_THAT(column(chart.option["series"][0], "text"),
              ElementsAre("500 ms  baseline", StartsWith("400 ms  1.25x ["), StartsWith("625 ms  0.800x ["),
                          StartsWith("250 ms  2.00x ["), StartsWith("125 ms  4.00x ["), StartsWith("300 ms  1.67x [")));
  EXPECT_EQ(chart.option["xAxis"]["name"], "time per image");
  const json& arena = chart.option["series"][0]["data"][1];
  EXPECT_EQ(tip_row(arena, "median per image"), "400 ms");
  EXPECT_EQ(tip_row(arena, "trials"), "6 of a step");
  EXPECT_THAT(tip_row(arena, "against the baseline"), HasSubstr("1.25 times as fast ("));
}

TEST(SpeedupComparison, IntervalsAreThoseOfTheResult) {
  std::vector<Result> results = {make_result({}, {100, 110}), make_result({"fuse"}, {50, 60})};
  results[0].trials[0].statistics.median_interval = Interval{100, 110};
  results[1].trials[0].statistics.median_interval.reset();
  const Drawn drawn = charts::speedup_comparison(make_dataset({make_file(results)}));
  const json& option = drawn.charts.front().option;
  EXPECT_EQ(option["series"][2]["data"], json::parse("[[0, 500.0, 550.0]]"));
  EXPECT_EQ(tip_row(option["series"][0]["data"][0], "95% interval"), "500 to 550 ms");
  EXPECT_EQ(tip_row(option["series"][0]["data"][1], "95% interval"), "none: 2 trials give no 95% interval, 6 would");
  EXPECT_THAT(drawn.charts.front().notes,
              Contains("Drawn without an interval: fuse (2 trials give no 95% interval, 6 would)."));
}

TEST(SpeedupComparison, PeersOfOtherWorkOrMachinesStayAway) {
  Subject other = test::denoise_subject();
  other.request["steps"] = 11;
  std::vector<Result> results = ladder_results();
  results.push_back(make_peer("other work", {60, 60}, other));
  ResultFile elsewhere = make_file({make_peer("other machine", {60, 60})});
  elsewhere.machine.cpu = "Other CPU";
  const Drawn drawn = charts::speedup_comparison(make_dataset({make_file(results), elsewhere}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  EXPECT_THAT(drawn.charts.front().option["yAxis"]["data"], SizeIs(5));
}

TEST(SpeedupComparison, IsLeftOutWithoutABaseline) {
  const Drawn drawn = charts::speedup_comparison(make_dataset({make_file({make_result({"fuse"}, {1, 2})})}));
  EXPECT_THAT(drawn.charts, IsEmpty());
  EXPECT_THAT(drawn.left_out, HasSubstr("without any switch"));
}

TEST(SpeedupComparison, DrawsOneRunAndSaysSo) {
  const Drawn drawn = charts::speedup_comparison(
      make_dataset({make_file({make_result({}, {10, 10}), make_result({"fuse"}, {5, 5})}, "2026-01-03T00:00:00Z"),
                    make_file({make_result({}, {99, 99})}, "2026-01-04T00:00:00Z")}));
  EXPECT_THAT(column(drawn.charts.front().option["series"][0], "value"), ElementsAre(50, 25));
  EXPECT_THAT(drawn.charts.front().notes,
              Contains("One run is drawn, that of 2026-01-03T00:00:00Z; 1 other measurement of the same work is in the "
                       "table."));
}

TEST(LatencyDistribution, SaysThatRevisionsAreMixed) {
  const ResultFile old = make_file({make_result({}, {10, 11}), make_result({"fuse"}, {5, 6})}, "2026-01-03T00:00:00Z",
                                   "aaa"),
                   later = make_file({make_result({}, {9, 10})}, "2026-01-04T00:00:00Z", "bbb");
  const std::string note = "Measured at different revisions of headroom, not side by side: aaa (fuse); bbb (baseline).";
  EXPECT_THAT(charts::latency_distribution(make_dataset({old, later})).charts.front().notes, Contains(note));
  EXPECT_THAT(charts::latency_distribution(make_dataset({old})).charts.front().notes, Not(Contains(note)));
}

TEST(CumulativeImpact, IsAWaterfallWithSynergy) {
  const Drawn drawn = charts::cumulative_impact(ladder_dataset());
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("baseline", "+ arena", "+ fuse", "+ steps=5", "all together"));
  EXPECT_THAT(column(option["series"][0], "value"), ElementsAre(0, 400, 250, 125, 0));      // where bars begin
  EXPECT_THAT(column(option["series"][1], "value"), ElementsAre(500, 100, 150, 125, 125));  // how long they are
  EXPECT_THAT(column(option["series"][1], "text"),
              ElementsAre("500 ms", StartsWith("400 ms  1.25x ["), StartsWith("250 ms  1.60x ["),
                          StartsWith("125 ms  2.00x ["), MatchesRegex("125 ms  4.00x \\[.*\\] in all")));
  EXPECT_THAT(drawn.charts.front().notes,
              Contains(MatchesRegex("All together 4.00x \\[.*\\], product of the factors of each alone 2.00x "
                                    "\\[.*\\]. Synergy, their quotient, 2.00x \\[.*\\]: together they do more than "
                                    "that.")));
}

TEST(CumulativeImpact, IsGreyWhereNoiseHidesTheChange) {
  std::vector<Result> results;
  for (const auto& [switches, ms] : std::vector<std::pair<std::vector<std::string>, double>>{
           {{}, 100}, {{"arena"}, 80}, {{"fuse"}, 101}, {{"arena", "fuse"}, 80.1}})
    results.push_back(make_result(switches, {ms - 1, ms - 0.5, ms, ms, ms + 0.5, ms + 1, ms - 1, ms + 1}));
  for (std::size_t i = 0; i < results.size(); ++i) results[i].id = std::to_string(i);
  const Chart chart = charts::cumulative_impact(make_dataset({make_file(results)})).charts.at(0);
  const json& bars = chart.option["series"][1]["data"];
  std::vector<std::string> roles;
  for (const json& bar : bars) roles.push_back(test::role_of_item(bar));
  EXPECT_THAT(roles, ElementsAre("base", "green", "base", "orange"));
  EXPECT_THAT(chart.notes, Contains(HasSubstr("grey does not differ significantly from it")));
}

/// A ladder in which `tile` declines alone and `streams` everywhere.
Dataset declining_dataset() {
  std::vector<Result> results = {make_result({}, {100, 100}),
                                 make_result({"arena"}, {80, 80}),
                                 make_result({"tile"}, {101, 101}),
                                 make_result({"streams"}, {99, 99}),
                                 make_result({"arena", "tile"}, {50, 50}),
                                 make_result({"arena", "tile", "streams"}, {51, 51})};
  const auto decline = [](Result& result, const std::string& name, const std::string& reason) {
    std::erase(result.configuration.applied, name);
    result.configuration.declined.push_back({name, reason});
  };
  decline(results[2], "tile", "there is no arena");
  decline(results[3], "streams", "a CPU has none");
  decline(results[5], "streams", "a CPU has none");
  return make_dataset({make_file(results)});
}

TEST(SpeedupComparison, TellsWhatDeclined) {
  const Chart chart = charts::speedup_comparison(declining_dataset()).charts.at(0);
  EXPECT_THAT(chart.option["yAxis"]["data"],
              ElementsAre("baseline", "arena", "tile (declined)", "streams (declined)", "all together"));
  EXPECT_EQ(column(chart.option["series"][0], "text").at(2), "505 ms") << "a factor would be noise";
  EXPECT_THAT(chart.notes, Contains("All together: arena, tile."));
  EXPECT_THAT(chart.notes, Contains("tile declined alone: there is no arena"));
  EXPECT_THAT(chart.notes, Contains("streams declined: a CPU has none"));
}

TEST(CumulativeImpact, TellsWhatDeclined) {
  const Chart chart = charts::cumulative_impact(declining_dataset()).charts.at(0);
  EXPECT_THAT(chart.option["yAxis"]["data"],
              ElementsAre("baseline", "+ arena", "+ tile", "+ streams (declined)", "all together"));
  EXPECT_THAT(column(chart.option["series"][1], "text"),
              ElementsAre("500 ms", StartsWith("400 ms  1.25x"), StartsWith("250 ms  1.60x"), "255 ms",
                          StartsWith("255 ms  1.96x")));
  EXPECT_THAT(chart.notes, Contains("streams declined: a CPU has none"));
  EXPECT_THAT(chart.notes, Not(Contains(HasSubstr("tile declined"))));
}

TEST(LatencyDistribution, NamesWhatDeclined) {
  const json option = charts::latency_distribution(declining_dataset()).charts.at(0).option;
  EXPECT_THAT(option["yAxis"]["data"], Contains("arena+tile+streams (streams declined)"));
}

TEST(FusionSpeedup, IsLeftOutWhereFuseDeclined) {
  std::vector<Result> results = {make_result({}, {10}), make_result({"fuse"}, {10})};
  results[1].configuration.applied.clear();
  results[1].configuration.declined = {{"fuse", "nothing to fuse"}};
  EXPECT_THAT(charts::fusion_speedup(make_dataset({make_file(results)})).charts, IsEmpty());
}

TEST(OptimizationFlow, ConservesTimeAtEveryRung) {
  const Drawn drawn = charts::optimization_flow(
      make_dataset({make_file({make_result({}, around(100)), make_result({"arena"}, around(120)),
                               make_result({"arena", "fuse"}, around(60))})}));
  const json& series = drawn.charts.at(0).option["series"][0];
  EXPECT_THAT(column(series, "text"), ElementsAre("baseline\n500 ms", "+ arena\n600 ms", "arena adds\n100 ms",
                                                  "what is left\n300 ms", "fuse saves\n300 ms"));
  std::map<std::string, double> in, out;
  for (const json& link : series["links"]) {
    out[link["source"]] += link["value"].get<double>();
    in[link["target"]] += link["value"].get<double>();
  }
  EXPECT_EQ(out["n0"], 500);  // baseline
  EXPECT_EQ(in["n1"], 600);   // + arena: incoming and added
  EXPECT_EQ(out["n1"], 600);
  EXPECT_EQ(in["n3"], 300);
}

TEST(OptimizationFlow, LeavesOutWhatIsNoise) {
  std::vector<Result> results = {make_result({}, around(100)), make_result({"arena"}, around(100)),
                                 make_result({"arena", "fuse"}, around(50)),
                                 make_result({"arena", "fuse", "graph"}, around(40)),
                                 make_result({"arena", "fuse", "graph", "steps=5"}, around(40))};
  results[3].unsettled = "its rounds disagree";
  const Chart chart = charts::optimization_flow(make_dataset({make_file(results)})).charts.at(0);
  EXPECT_THAT(column(chart.option["series"][0], "text"),
              ElementsAre("baseline\n500 ms", "+ fuse\n250 ms", "arena to fuse saves\n250 ms", "what is left\n100 ms",
                          "graph to steps=5 saves\n150 ms"));
  EXPECT_THAT(
      chart.notes.back(),
      MatchesRegex("Not drawn as steps, because no change of theirs is known to exceed the noise: arena \\(1.00x "
                   "\\[.*\\] since the baseline\\); graph \\(unsettled\\)."));
  results.resize(2);
  results.push_back(make_result({"arena", "fuse"}, around(100)));
  const Drawn none = charts::optimization_flow(make_dataset({make_file(results)}));
  EXPECT_THAT(none.charts, IsEmpty());
  EXPECT_THAT(none.left_out, HasSubstr("noise"));
}

/// Gives a result a stage of this time; it is on the device if it has a floor.
void add_stage(Result& result, const std::string& name, double ms, std::optional<double> floor_ms = {}) {
  result.trials.push_back(make_series(name, Trials{.wall_ms = {ms, ms, ms}}));
  StageRecord stage{.name = name, .memory_bytes = {}, .weights_bytes = {}, .floor_ms = floor_ms};
  if (floor_ms) stage.memory_bytes = 1;
  result.stages.push_back(stage);
}

TEST(StageTimes, StacksStagesWithTheirFloors) {
  std::vector<Result> results = ladder_results();
  for (Result& result : results) {
    add_stage(result, "tokenize", 1);
    add_stage(result, "text_encoder", 10, 5);
    add_stage(result, "inputs", 2);
    add_stage(result, "denoise", 890, 400);
  }
  add_stage(results[1], "decode", 50, 60);
  const Drawn drawn = charts::stage_times(make_dataset({make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const Chart& chart = drawn.charts.front();
  const json& series = chart.option["series"];
  ASSERT_THAT(series, SizeIs(7));
  EXPECT_EQ(series[0]["name"], "text_encoder");
  EXPECT_EQ(series[1]["name"], "denoise");
  EXPECT_EQ(column(series[1], "value")[0], 987.0) << "what other stages leave of two images of 500 ms";
  EXPECT_EQ(series[2]["name"], "decode");
  EXPECT_EQ(column(series[2], "value")[0], 0.0) << "the baseline has none";
  EXPECT_EQ(column(series[2], "value")[1], 50.0);
  EXPECT_EQ(series[3]["name"], "on the host");
  EXPECT_EQ(column(series[3], "value")[0], 3.0);
  EXPECT_EQ(column(series[4], "text")[0], "1.00 s  n = 3") << "two images of 500 ms, as every chart says";
  EXPECT_EQ(series[5]["data"][0], json::parse("[0, 0.0, 5.0]"));
  EXPECT_EQ(series[5]["data"][1], json::parse("[0, 10.0, 410.0]"));
  EXPECT_EQ(series[5]["data"][4], json::parse("[1, 747.0, 797.0]")) << "a floor does not leave its stage";
  EXPECT_EQ(series[6]["data"][0], json::parse("[0, 993.5714285714287, 1006.4285714285713]"))
      << "the interval of the steps, in all images";
  EXPECT_EQ(tip_row(series[1]["data"][0], "floor of denoise"), "400 ms");
  EXPECT_THAT(chart.notes, Contains(HasSubstr("floor")));

  for (Result& result : results) result.stages.erase(result.stages.begin() + 2, result.stages.end());
  EXPECT_THAT(charts::stage_times(make_dataset({make_file(results)})).charts, IsEmpty());
}

TEST(MemoryUsage, ShowsUsedAllocatedAndTheGap) {
  const Drawn drawn = charts::memory_usage(ladder_dataset());
  const Chart& chart = drawn.charts.front();
  EXPECT_EQ(column(chart.option["series"][0], "value").front(), 8'388'608);
  EXPECT_EQ(column(chart.option["series"][1], "value").front(), 2'097'152);
  EXPECT_EQ(column(chart.option["series"][1], "text").front(), "8.00 MiB used, 10.0 MiB allocated\n1014 MiB free");
  const json& item = chart.option["series"][0]["data"][0];
  EXPECT_EQ(tip_row(item, "device has"), "1073741824 bytes");
  EXPECT_EQ(tip_row(item, "free on the device"), "1063256064 bytes");
  EXPECT_THAT(chart.notes, ElementsAre("The device has 1.00 GiB; baseline uses 0.781% of it."));
  EXPECT_THAT(charts::memory_usage(baseline_only()).charts, IsEmpty());
}

TEST(AccuracySize, MarksTheParetoFrontier) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"bf16"}, {1}), make_result({"fuse"}, {1}),
                                 make_result({"int8"}, {1})};
  const double accuracy[] = {0.98, 0.97, 0.96, 0.90};
  const std::int64_t weights[] = {4'000'000, 2'000'000, 4'000'000, 1'000'000};
  for (std::size_t i = 0; i < results.size(); ++i) {
    test::set_quality(results[i], "accuracy", accuracy[i], Interval{accuracy[i] - 0.01, accuracy[i] + 0.01});
    test::set_memory(results[i], weights[i], weights[i], weights[i]);
  }
  const Chart chart = charts::accuracy_size(make_dataset({make_file(results)})).charts.front();
  const json& option = chart.option;
  EXPECT_THAT(chart.notes, Contains(HasSubstr("dashed line")));
  EXPECT_EQ(option["series"][0]["data"], json::parse("[[1e6, 0.9], [2e6, 0.97], [4e6, 0.98]]"));
  EXPECT_EQ(option["series"][2]["data"][0]["text"], "fuse") << "drawn first, below those that beat it";
  for (const json& item : option["series"][2]["data"])
    EXPECT_EQ(tip_row(item, "frontier").starts_with("on it"), item["text"] != "fuse") << item;
}

TEST(AccuracySize, SpeaksOfNoLineWhereOnePointBeatsAll) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"bf16"}, {1})};
  for (Result& result : results) test::set_memory(result, 4'000'000, 4'000'000, 4'000'000);
  test::set_quality(results[0], "accuracy", 0.97);
  test::set_quality(results[1], "accuracy", 0.98);
  const Chart chart = charts::accuracy_size(make_dataset({make_file(results)})).charts.front();
  EXPECT_THAT(chart.option["series"][0]["data"], SizeIs(1));
  EXPECT_THAT(chart.notes, Not(Contains(HasSubstr("dashed line"))));
  EXPECT_THAT(chart.notes, Contains(HasSubstr("The orange point is the Pareto frontier")));
}

TEST(FrechetTime, PutsModelsAndStepsOnOneFrontier) {
  std::vector<Result> results = {make_result({}, {8}), make_result({"steps=4"}, {2}), make_result({"bf16"}, {9}),
                                 make_result({"steps=4"}, {1})};
  results[3].subject.name = "student";
  const double distances[] = {0.10, 0.30, 0.11, 0.12};
  for (std::size_t i = 0; i < results.size(); ++i) test::set_quality(results[i], "frechet_distance", distances[i]);
  const Drawn drawn = charts::frechet_time(make_dataset({make_file(results)}));
  ASSERT_EQ(drawn.charts.size(), 1U);
  const json& option = drawn.charts.front().option;
  EXPECT_EQ(option["series"][0]["data"], json::parse("[[2, 0.12], [40, 0.10]]"));
  EXPECT_EQ(option["series"][2]["data"][2]["text"], "student steps=4") << "drawn after the two that it beats";
  EXPECT_THAT(drawn.charts.front().notes, Contains(HasSubstr("dashed line")));
  results.resize(1);
  EXPECT_THAT(charts::frechet_time(make_dataset({make_file(results)})).charts, IsEmpty());
}

TEST(LossComparison, ShowsEachMetricAndIdenticalImages) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"arena"}, {1}), make_result({"bf16"}, {1})};
  test::set_quality(results[1], "psnr_db", {}, {}, "identical");
  test::set_quality(results[2], "psnr_db", 61.25);
  const Drawn drawn = charts::loss_comparison(make_dataset({make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  EXPECT_THAT(column(drawn.charts.front().option["series"][0], "text"), ElementsAre("identical", "61.2 dB"));
  EXPECT_THAT(column(drawn.charts.front().option["series"][0], "value"), ElementsAre(1.1 * 61.25, 61.25))
      << "longer than any, and hollow";
  EXPECT_EQ(drawn.charts.front().option["series"][0]["data"][0]["itemStyle"]["borderType"], "dashed");
  EXPECT_EQ(tip_row(drawn.charts.front().option["series"][0]["data"][1], "psnr_db"), "61.25 dB");
}

TEST(LossComparison, MarksTheLimitAndCutsBarsThatLeaveNoRoom) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"fuse"}, {1}), make_result({"bf16"}, {1})};
  test::set_quality(results[1], "psnr_db", 142);
  test::set_quality(results[2], "psnr_db", 49);
  const Drawn drawn = charts::loss_comparison(make_dataset({make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const Chart& chart = drawn.charts.front();
  EXPECT_THAT(column(chart.option["series"][0], "value"), ElementsAre(100, 49));
  EXPECT_THAT(column(chart.option["series"][0], "text"), ElementsAre("142 dB", "49.0 dB"));
  EXPECT_NEAR(chart.option["series"][0]["markLine"]["data"][0]["xAxis"].get<double>(), 40, 1e-9) << "an error of 1%";
  constexpr int kMarkLineZ = 5;  // ECharts' own
  EXPECT_GT(chart.option["series"][1].value("z", 2), kMarkLineZ) << "the dashed line would cross out the texts";
  EXPECT_THAT(chart.notes, Contains("Bars end at 100 dB."));
  EXPECT_THAT(chart.notes,
              Contains("The dashed line is a limit: RMS error grown by at most 1% of the range of values."));
}

Subject at(std::int64_t images, std::int64_t steps, std::int64_t rows) {
  Subject subject = test::denoise_subject();
  subject.request["images"] = images;
  subject.request["steps"] = steps;
  subject.request["token_rows"] = rows;
  return subject;
}

TEST(ResolutionScaling, DrawsBaselineAndFastest) {
  const Dataset dataset =
      make_dataset({make_file({make_result({}, {10}, at(1, 10, 16)), make_result({"fuse"}, {8}, at(1, 10, 16)),
                               make_result({}, {40}, at(1, 10, 32)), make_result({"fuse"}, {30}, at(1, 10, 32))})});
  const json option = charts::resolution_scaling(dataset).charts.front().option;
  EXPECT_EQ(option["series"][0]["name"], "baseline");
  EXPECT_THAT(column(option["series"][0], "value"), ElementsAre(json::parse("[0, 100.0]"), json::parse("[1, 400.0]")));
  EXPECT_THAT(option["xAxis"]["data"], ElementsAre("16x16 tokens", "16x32 tokens"));
  EXPECT_EQ(option["series"][2]["name"], "fuse");
  EXPECT_THAT(column(option["series"][2], "text"), ElementsAre("80.0 ms", "300 ms"));
  EXPECT_EQ(option["xAxis"]["name"], "size of an image");
  EXPECT_THAT(charts::resolution_scaling(ladder_dataset()).charts, IsEmpty());
}

TEST(BatchScaling, IsPerImage) {
  Subject two{.kind = SubjectKind::kModel, .name = "tiny-dit", .request = {{"pass", "forward"}, {"batch", 2}}};
  Subject eight = two;
  eight.request["batch"] = 8;
  const Dataset dataset =
      make_dataset({make_file({make_result({}, {10}, two, "forward"), make_result({}, {20}, eight, "forward")})});
  const Drawn drawn = charts::batch_scaling(dataset);
  ASSERT_THAT(drawn.charts, SizeIs(1));
  EXPECT_THAT(column(drawn.charts.front().option["series"][0], "value"),
              ElementsAre(json::parse("[2.0, 5.0]"), json::parse("[8.0, 2.5]")));
  EXPECT_THAT(charts::batch_scaling(ladder_dataset()).charts, IsEmpty());
}

TEST(StepResolutionHeatmap, SaysWhereMemoryRanOut) {
  std::vector<Result> results;
  for (const std::int64_t steps : {4, 8})
    for (const std::int64_t rows : {16, 32})
      results.push_back(make_result({}, {static_cast<double>(rows)}, at(1, steps, rows)));
  results[3].trials.clear();
  results[3].tags = {std::string(kOutOfMemoryTag)};
  const json option = charts::step_resolution_heatmap(make_dataset({make_file(results)})).charts.front().option;
  EXPECT_THAT(option["series"][0]["data"], SizeIs(3));
  EXPECT_EQ(option["series"][1]["data"][0]["value"], json::parse("[1, 1, 0]"));
  EXPECT_EQ(option["series"][1]["data"][0]["text"], "out of memory");
}

/// A profile of the matmuls of two layers, each at twice its floor, and of a norm at its floor.
ResultFile profiled_file() {
  Result result = make_result({"fuse"}, {10, 10});
  result.plan = "plan";
  result.profile = ProfileRecord{
      .time_ms = {4, 4, 1}, .floor_ms = {2, 2, 1}, .floor_of = {"flops", "flops", "copy"}, .runs = {10, 10, 10}};
  ResultFile file = make_file({make_result({}, {20, 20}), result});
  for (const auto& [node, op] :
       {std::pair("blocks.0.to_q", "linear"), {"blocks.1.to_q", "linear"}, {"norm", "layer_norm"}})
    file.plans["plan"].nodes.push_back({.node = node,
                                        .op = op,
                                        .kernel = "k",
                                        .implementation = "i",
                                        .compute_type = "f32",
                                        .cost_unit = "vector",
                                        .rejections = {}});
  return file;
}

TEST(TimeByOp, StandsOverItsFloor) {
  const Drawn drawn = charts::time_by_op(make_dataset({profiled_file()}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("linear", "layer_norm"));
  EXPECT_THAT(column(option["series"][0], "value"), ElementsAre(80, 10));
  EXPECT_THAT(column(option["series"][0], "text"),
              ElementsAre("80.0 ms  88.9%  2.00x its floor", "10.0 ms  11.1%  1.00x its floor"));
  EXPECT_THAT(column(option["series"].back(), "value"), ElementsAre(40, 10));
  EXPECT_THAT(charts::time_by_op(ladder_dataset()).charts, IsEmpty());
}

TEST(TimeByOp, SaysThatAProfileWasDisturbedOrIsBelowItsFloor) {
  ResultFile file = profiled_file();
  file.results[1].profile->floor_ms = {8, 8, 1.02};
  TrialSeries& steps = file.results[1].trials[0];
  steps.conditions.waited_ms.assign(steps.time_ms.size(), 9);
  const Chart chart = charts::time_by_op(make_dataset({file})).charts.at(0);
  EXPECT_THAT(chart.notes, Contains(testing::AllOf(HasSubstr("unsettled"), HasSubstr("other work held the CPUs"))));
  EXPECT_THAT(column(chart.option["series"][0], "text"),
              ElementsAre("80.0 ms  88.9%  below its floor", "10.0 ms  11.1%  at its floor"));
}

TEST(TimeByOp, KeepsAProfileOfAConfigurationThatWasTimedLater) {
  const ResultFile later = make_file({make_result({"fuse"}, {9, 9})}, "2027-01-02T03:04:05Z");
  EXPECT_THAT(charts::time_by_op(make_dataset({profiled_file(), later})).charts, SizeIs(1));
}

TEST(TimeByModule, NamesWhatLayersShare) {
  const json option = charts::time_by_module(make_dataset({profiled_file()})).charts.at(0).option;
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("blocks.*.to_q", "norm"));
}

TEST(TrialsOverTime, HasTheMeasurementBeforeBehindIt) {
  const ResultFile before = make_file({make_result({}, {10, 12, 11})}, "2026-01-03T00:00:00Z", "aaa"),
                   after = make_file({make_result({}, {9, 8})}, "2026-01-04T00:00:00Z", "bbb");
  const Drawn drawn = charts::trials_over_time(make_dataset({before, after}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& series = drawn.charts.front().option["series"];
  EXPECT_EQ(series[0]["data"], json::parse("[[1, 10.0], [2, 12.0], [3, 11.0]]"));
  EXPECT_EQ(series[1]["data"], json::parse("[[1, 9.0], [2, 8.0]]"));
  EXPECT_THAT(drawn.charts.front().notes,
              ElementsAre("This run: 2026-01-04T00:00:00Z at bbb; the previous one: 2026-01-03T00:00:00Z at aaa."));
  EXPECT_THAT(charts::trials_over_time(make_dataset({after})).charts, IsEmpty());
  Subject pass = test::denoise_subject();
  pass.request = {{"pass", "forward"}, {"batch", 1}};
  const Drawn passes = charts::trials_over_time(
      make_dataset({make_file({make_result({}, {10, 12}, pass, "forward")}, "2026-01-03T00:00:00Z", "aaa"),
                    make_file({make_result({}, {9, 8}, pass, "forward")}, "2026-01-04T00:00:00Z", "bbb")}));
  EXPECT_EQ(passes.charts.at(0).title, "Each forward pass of baseline, in the order they ran");
  EXPECT_EQ(passes.charts.at(0).option["yAxis"]["name"], "time of one forward pass");
}

/// A stream of `frames` frames; frame i waits i ms before its work.
Result stream_result(std::int64_t frames, double device_ms) {
  Result result = make_result({}, {1}, {.kind = SubjectKind::kStream, .name = "stream", .request = {{"fps", 25}}});
  result.trials.clear();
  LatencyRecord record{.came = frames + 2, .shown = frames, .dropped = 2, .seconds = 1};
  for (std::int64_t i = 0; i < frames; ++i) {
    const auto queue_ms = static_cast<double>(i);
    record.frame.push_back(i);
    record.arrived_ms.push_back(40.0 * queue_ms);
    record.decode_ms.push_back(1);
    record.queue_ms.push_back(queue_ms);
    record.device_ms.push_back(device_ms);
    record.encode_ms.push_back(2);
    record.latency_ms.push_back(3 + queue_ms + device_ms);
  }
  record.statistics = summarize_latency(record.latency_ms);
  result.latency = std::move(record);
  return result;
}

TEST(LatencyOverTime, HasTheMeasurementBeforeBehindIt) {
  const Dataset dataset = make_dataset({make_file({stream_result(3, 20)}, "2026-01-03T00:00:00Z"),
                                        make_file({stream_result(4, 10)}, "2026-01-04T00:00:00Z")});
  const Drawn drawn = charts::latency_over_time(dataset);
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& series = drawn.charts.front().option["series"];
  EXPECT_EQ(series[0]["data"], json::parse("[[0.0, 23.0], [40.0, 24.0], [80.0, 25.0]]"));
  EXPECT_EQ(series[1]["name"], "each frame");
  EXPECT_EQ(series[1]["data"], json::parse("[[0.0, 13.0], [40.0, 14.0], [80.0, 15.0], [120.0, 16.0]]"));
  EXPECT_THAT(drawn.charts.front().notes.front(), HasSubstr("6 frames came, 2 were dropped; p50 14.5 ms"));
  EXPECT_THAT(charts::latency_over_time(ladder_dataset()).charts, IsEmpty());
}

TEST(LatencyOverTime, DrawsSlicesOfALongStream) {
  const json series =
      charts::latency_over_time(make_dataset({make_file({stream_result(1800, 10)})})).charts.at(0).option["series"];
  ASSERT_THAT(series[0]["data"], SizeIs(600));
  EXPECT_EQ(series[0]["data"][1], json::parse("[120.0, 18.0]")) << "the slowest of frames 3, 4 and 5";
  EXPECT_EQ(series[1]["data"][1], json::parse("[120.0, 17.0]"));
}

TEST(StageTimes, TellsWhereAFramesTimeGoes) {
  const Chart chart = charts::stage_times(make_dataset({make_file({stream_result(5, 10)})})).charts.at(0);
  EXPECT_EQ(chart.title, "Where the time of a frame goes");
  const json& series = chart.option["series"];
  ASSERT_THAT(series, SizeIs(5));
  EXPECT_EQ(column(series[1], "value")[0], 2.0);  // the mean of 0 to 4 ms in the queue
  EXPECT_EQ(column(series[4], "text")[0], "15.0 ms  n = 5");
}

TEST(CostScaling, IsOfAThousand) {
  Dataset dataset =
      make_dataset({make_file({make_result({}, {36}, at(1, 10, 16)), make_result({}, {36}, at(2, 10, 16))})});
  EXPECT_THAT(charts::cost_scaling(dataset).left_out, HasSubstr("--price"));
  dataset.set_price(Price::parse("$10/h"));
  const json series = charts::cost_scaling(dataset).charts.at(0).option["series"][0];  // 360 and 180 ms an image
  EXPECT_THAT(column(series, "value"), ElementsAre(json::parse("[1.0, 1.0]"), json::parse("[2.0, 0.5]")));
  EXPECT_THAT(column(series, "text"), ElementsAre("$1.00", "$0.500"));
}

TEST(LossComparison, KeepsReferencesApart) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"fuse"}, {1}), make_result({"bf16"}, {1})};
  for (Result& result : results) test::set_quality(result, "relative_l2", 0.1);
  results[0].quality[0].against = "another program";
  const Drawn drawn = charts::loss_comparison(make_dataset({make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  EXPECT_THAT(drawn.charts.front().option["yAxis"]["data"], ElementsAre("fuse", "bf16"));
  EXPECT_THAT(drawn.charts.front().notes, Contains("Held against: the reference."));
}

TEST(StepResolutionHeatmap, HoldsSeconds) {
  std::vector<Result> results;
  for (const std::int64_t steps : {4, 8})
    for (const std::int64_t rows : {16, 32})
      results.push_back(make_result({}, {static_cast<double>(rows)}, at(1, steps, rows)));
  const json option = charts::step_resolution_heatmap(make_dataset({make_file(results)})).charts.front().option;
  EXPECT_THAT(option["xAxis"]["data"], ElementsAre("16x16 tokens", "16x32 tokens"));
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("4", "8"));
  EXPECT_THAT(column(option["series"][0], "text"), ElementsAre("0.0640 s", "0.128 s", "0.128 s", "0.256 s"));
  EXPECT_EQ(option["series"][0]["data"][3]["value"], json::parse("[1, 1, 256.0]"));
  EXPECT_EQ(tip_row(option["series"][0]["data"][3], "seconds"), "0.256 s");
  EXPECT_THAT(charts::step_resolution_heatmap(ladder_dataset()).charts, IsEmpty());
}

TEST(LatencyDistribution, OutlinesTheRawTrials) {
  const Dataset dataset =
      make_dataset({make_file({make_result({}, {10, 11, 12, 13, 14}), make_result({"fuse"}, {7, 8})})});
  const json option = charts::latency_distribution(dataset).charts.front().option;
  const json violin = option["series"][0]["data"][0]["value"];
  EXPECT_EQ(std::vector<double>(violin.begin(), violin.begin() + 7), (std::vector<double>{0, 10, 11, 12, 13, 14, 48}))
      << "steps as they ran";
  EXPECT_EQ(violin.size(), 7U + 2 * 48);
  double most = 0;
  for (std::size_t i = 8; i < violin.size(); i += 2) most = std::max(most, violin[i].get<double>());
  EXPECT_EQ(most, 1);
  EXPECT_THAT(column(option["series"][1], "value"), ElementsAre(json::parse("[7.0, 1.0]"), json::parse("[8.0, 1.0]")));
  EXPECT_EQ(option["xAxis"]["name"], "time of one step");
  EXPECT_THAT(charts::latency_distribution(dataset).charts.front().notes, Each(Not(HasSubstr("other programs"))));
}

TEST(FusionSpeedup, PairsConfigurationsThatDifferInFuseAlone) {
  const json option = charts::fusion_speedup(ladder_dataset()).charts.front().option;
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("baseline", "fuse", "arena", "arena+fuse"));
  EXPECT_THAT(column(option["series"][0], "value"), ElementsAre(500, 625, 400, 250));
  EXPECT_THAT(column(option["series"][0], "text"),
              ElementsAre("500 ms", StartsWith("625 ms  0.800x ["), "400 ms", StartsWith("250 ms  1.60x [")));
  EXPECT_THAT(option["series"][2]["data"], SizeIs(4)) << "a whisker for each";
}

TEST(AttentionComparison, ShowsModelsAndKernels) {
  const Dataset dataset =
      make_dataset({make_file({make_result({}, {10}), make_result({"flash"}, {5})}), test::kernel_file()});
  const Drawn drawn = charts::attention_comparison(dataset);
  ASSERT_THAT(drawn.charts, SizeIs(2));
  EXPECT_EQ(drawn.charts[0].option["series"][0]["data"][1]["text"], "25.0 ms  2.00x");
  EXPECT_EQ(drawn.charts[1].file, "attention_comparison-2");
  EXPECT_EQ(drawn.charts[1].option["series"][0]["data"][0]["text"], "4.00 ms  500 GFLOP/s");
}

TEST(AttentionComparison, TellsStandardAttentionApart) {
  ResultFile file = test::kernel_file();
  std::vector<PlannedNode>& nodes = file.plans.at("plan of attention bf16").nodes;
  PlannedNode scores = nodes.front();
  scores.kernel = "our.matmul";
  nodes.insert(nodes.begin(), scores);
  const Dataset dataset = make_dataset({file});
  const json bar = charts::attention_comparison(dataset).charts.at(0).option["series"][0]["data"][0];
  EXPECT_EQ(bar["text"], "4.00 ms  1.00 TFLOP/s");
  EXPECT_EQ(bar["itemStyle"]["color"]["$color"], "base");
  EXPECT_EQ(tip_row(bar, "kernels"), "our.matmul + our.attention");
  const json products = charts::tensor_core_analysis(dataset).charts.at(0).option;
  for (const json& name : products["yAxis"]["data"])
    EXPECT_NE(name, "attention bf16") << "several launches have no rate of one kernel";
}

TEST(TensorCoreAnalysis, ShowsTheRateOfTheMedianLeastAndMost) {
  const json option = charts::tensor_core_analysis(make_dataset({test::kernel_file()})).charts.front().option;
  EXPECT_THAT(option["yAxis"]["data"], ElementsAre("linear bf16", "attention bf16", "linear f32"));
  EXPECT_EQ(option["series"][0]["data"][0]["text"], "1.00 TFLOP/s");
  const json& f32 = option["series"][0]["data"][2];  // 250, 200 and 166.7 GFLOP/s
  EXPECT_NEAR(f32["value"].get<double>(), 200e9, 1e6) << "as the table of the suite and the roofline";
  EXPECT_EQ(tip_row(f32, "most"), "250000000000 FLOP/s");
  EXPECT_EQ(f32["text"], "200 GFLOP/s");
  EXPECT_EQ(option["xAxis"]["splitNumber"], 4) << "labels as wide as 100 TFLOP/s all have room";
  EXPECT_EQ(option["media"][0]["option"]["xAxis"]["splitNumber"], 2);
}

TEST(Roofline, DrawsEachMachineInAChartOfItsOwn) {
  ResultFile few_cores = test::kernel_file();
  few_cores.machine.logical_cores = 2;
  const Dataset dataset = make_dataset({test::kernel_file(), few_cores});
  for (const Drawn& drawn :
       {charts::roofline(dataset), charts::tensor_core_analysis(dataset), charts::attention_comparison(dataset)}) {
    ASSERT_THAT(drawn.charts, SizeIs(2));
    EXPECT_EQ(drawn.charts[0].subtitle, "Test CPU, 2 of 4 cores, 1.00 GiB, 2 threads");
    EXPECT_EQ(drawn.charts[1].subtitle, "Test CPU, 2 cores, 1.00 GiB, 2 threads");
  }
}

TEST(Roofline, PutsKernelsUnderMeasuredRoofs) {
  const json option = charts::roofline(make_dataset({test::kernel_file()})).charts.front().option;
  const json& copy = option["series"][0];
  EXPECT_EQ(copy["name"], "copy, 200 GB/s");  // 1 GB read and written in 10 ms
  EXPECT_EQ(copy["data"][0][1].get<double>() / copy["data"][0][0].get<double>(), 200e9);
  std::map<std::string, json> by_name;
  for (const json& series : option["series"]) by_name[series["name"]] = series["data"];
  EXPECT_EQ(by_name["fastest product in bf16, 1.00 TFLOP/s"][1][1], 1e12);
  EXPECT_EQ(by_name["f32"], json::array({by_name["f32"][0], by_name["f32"][1]}));
  EXPECT_EQ(by_name["f32"][0]["value"], json::parse("[1000.0, 200e9]"));
  EXPECT_THAT(charts::roofline(ladder_dataset()).charts, IsEmpty());
}

TEST(BackendComparison, PutsPeersNextToOursWhereTheWorkIsEqual) {
  std::vector<Result> results = ladder_results();
  results.push_back(make_peer("eager", {300, 300}));
  const Drawn one = charts::backend_comparison(make_dataset({make_file(results)}));
  EXPECT_EQ(one.charts.front().option["series"][0]["data"].back()["text"], "1.50 s");
  EXPECT_EQ(tip_row(one.charts.front().option["series"][0]["data"].back(), "source"), "pytorch 2.11");

  Subject other = test::denoise_subject();
  other.name = "other-dit";
  results.push_back(make_result({}, {10, 10}, other));
  results.back().id = "other";
  results.push_back(make_peer("eager", {20, 20}, other));
  const Drawn two = charts::backend_comparison(make_dataset({make_file(results)}));
  ASSERT_THAT(two.charts, SizeIs(2)) << "a chart for each work";
  EXPECT_THAT(two.charts[1].option["yAxis"]["data"], ElementsAre("baseline", "pytorch eager"));
  EXPECT_THAT(column(two.charts[1].option["series"][0], "text"), ElementsAre(StartsWith("50.0 ms  2.00x"), "100 ms"))
      << "on the fastest of the other programs";
  EXPECT_THAT(charts::backend_comparison(ladder_dataset()).charts, IsEmpty());
}

TEST(BackendComparison, DrawsTheFastestOfManyPeers) {
  std::vector<Result> results = ladder_results();
  for (int i = 1; i <= 9; ++i) results.push_back(make_peer(fmt::format("peer {}", i), {100.0 + i, 100.0 + i}));
  const Chart chart = charts::backend_comparison(make_dataset({make_file(results)})).charts.front();
  EXPECT_THAT(chart.option["yAxis"]["data"], SizeIs(12));
  EXPECT_THAT(chart.option["yAxis"]["data"], Not(Contains("pytorch peer 7")));
  EXPECT_THAT(chart.notes, Contains(HasSubstr("3 other measurements of the same work are in the table")));
}

TEST(BackendComparison, TellsBaselinesOfTwoPrecisionsApart) {
  std::vector<Result> results = {make_result({}, {10}), make_result({}, {8}), make_peer("eager", {20})};
  results[1].id = "other";
  results[1].configuration.baseline_dtype = "bf16";
  const Dataset dataset = make_dataset({make_file(results)});
  EXPECT_THAT(charts::backend_comparison(dataset).charts.front().option["yAxis"]["data"],
              ElementsAre("baseline (bf16)", "baseline (f32)", "pytorch eager"));
}

Dataset history_of(const std::vector<double>& steps_ms) {
  std::vector<ResultFile> files;
  for (std::size_t i = 0; i < steps_ms.size(); ++i) {
    const double ms = steps_ms[i];
    files.push_back(make_file({make_result({}, {ms - 1, ms, ms, ms, ms, ms + 1})},
                              fmt::format("2026-01-{:02}T00:00:00Z", i + 1), fmt::format("revision{}", i)));
  }
  return make_dataset(std::move(files));
}

TEST(History, FindsSteps) {
  const Dataset dataset = history_of({100, 101, 100, 99, 100, 50, 50.5, 50, 49.5, 50});
  const Drawn drawn = charts::history(dataset);
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_EQ(option["xAxis"]["data"][5], "revision5");
  const std::vector<json> texts = column(option["series"][0], "text");
  EXPECT_EQ(texts.at(4), "500 ms");
  EXPECT_EQ(texts.at(5), "250 ms\n-50.0%");
  EXPECT_EQ(tip_row(option["series"][0]["data"][5], "level before"), "500 ms");
  EXPECT_EQ(tip_row(option["series"][0]["data"][5], "level from here on"), "250 ms");
  EXPECT_EQ(option["series"][2]["data"], json::parse("[500,500,500,500,500,250,250,250,250,250]"));
  EXPECT_THAT(drawn.charts.front().notes.front(), HasSubstr("1 step found"));
}

TEST(History, DrawsARevisionAsOnePoint) {
  std::vector<ResultFile> files;
  for (int i = 0; i < 12; ++i)
    files.push_back(make_file({make_result({}, {i < 9 ? 10.0 : 20.0, i < 9 ? 10.0 : 20.0})},
                              fmt::format("2026-01-{:02}T00:00:00Z", i + 1), i < 6 ? fmt::format("r{}", i) : "last"));
  const Drawn drawn = charts::history(make_dataset(std::move(files)));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& points = drawn.charts.front().option["series"][0]["data"];
  EXPECT_THAT(points, SizeIs(7));
  EXPECT_EQ(tip_row(points[6], "median of 6 runs"), "75 ms");
  EXPECT_THAT(drawn.charts.front().notes.front(), HasSubstr("No step found"));
}

TEST(History, DrawsFourRevisionsOrMore) {
  const Drawn drawn = charts::history(history_of({100, 100.5, 50, 50}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  EXPECT_THAT(column(drawn.charts.front().option["series"][0], "text"),
              ElementsAre("500 ms", "502 ms", "250 ms", "250 ms"));
  EXPECT_THAT(drawn.charts.front().notes.front(), HasSubstr("No step found"));
  EXPECT_THAT(charts::history(history_of({100, 100, 50})).charts, IsEmpty()) << "too few to say anything";
}

TEST(History, TellsDirtyRevisionsFromCleanOnes) {
  std::vector<ResultFile> files;
  for (const char* revision : {"0123456789abcdef", "0123456789abcdef-dirty", "b", "c"})
    files.push_back(
        make_file({make_result({}, {10, 10})}, fmt::format("2026-01-0{}T00:00:00Z", files.size() + 1), revision));
  const json option = charts::history(make_dataset(std::move(files))).charts.at(0).option;
  EXPECT_THAT(option["xAxis"]["data"], ElementsAre("0123456789ab", "0123456789ab-dirty", "b", "c"));
}

TEST(SizeScaling, DrawsModelsUnderOneRequest) {
  std::vector<Result> results;
  const std::pair<const char*, double> models[] = {{"small", 1e6}, {"large", 8e6}};
  for (const auto& [name, parameters] : models)
    for (const char* opt : {"", "fuse"}) {
      Subject subject = test::denoise_subject();
      subject.name = name;
      subject.parameters = static_cast<std::int64_t>(parameters);
      const double ms = parameters / 1e5 / (*opt == 0 ? 1 : 2);
      results.push_back(make_result(*opt == 0 ? std::vector<std::string>{} : std::vector<std::string>{opt},
                                    {ms, ms, ms, ms, ms, ms}, subject));
      results.back().id = fmt::format("{} {}", name, opt);
    }
  const Drawn drawn = charts::size_scaling(make_dataset({make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& option = drawn.charts.front().option;
  EXPECT_EQ(option["xAxis"]["type"], "log");
  EXPECT_EQ(option["series"][0]["name"], "baseline");
  EXPECT_EQ(option["series"][0]["data"][1]["value"], json::parse("[8e6, 400.0]"));  // 5 steps of 80 ms for an image
  EXPECT_EQ(option["series"][2]["name"], "fuse");
  EXPECT_EQ(option["series"][2]["data"][0]["text"], "25.0 ms");
  EXPECT_EQ(tip_row(option["series"][2]["data"][0], "model"), "small");
  EXPECT_THAT(charts::size_scaling(ladder_dataset()).charts, IsEmpty());
}

TEST(DrawCharts, SaysWhatIsLeftOutAndWhy) {
  const ChartSet set = draw_charts(baseline_only());
  EXPECT_THAT(set.charts, IsEmpty());
  std::size_t kinds = 0;
#define HR_CHART(name) ++kinds;
#include "report/charts/charts.def"
#undef HR_CHART
  EXPECT_EQ(set.left_out.size(), kinds);
  for (const LeftOut& left_out : set.left_out) EXPECT_FALSE(left_out.reason.empty()) << left_out.file;
}

}  // namespace
}  // namespace headroom
