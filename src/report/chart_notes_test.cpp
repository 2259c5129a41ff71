// What charts say of themselves is true, and agrees from chart to chart: notes, marks, colours and labels.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using test::items_of;
using test::make_dataset;
using test::make_file;
using test::make_peer;
using test::make_result;
using test::role_of_item;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::vector<double> six(double ms) { return {ms - 1, ms, ms, ms, ms, ms + 1}; }

Dataset dataset_of(std::vector<Result> results) {
  for (std::size_t i = 0; i < results.size(); ++i) results[i].id = fmt::format("{}", i);
  return make_dataset({make_file(std::move(results))});
}

Subject with_request(const std::string& key, const json& value) {
  Subject subject = test::denoise_subject();
  subject.request[key] = value;
  return subject;
}

// ---- whiskers and what is not drawn

TEST(ChartNotes, SweepsSayWhyPointsHaveNoWhisker) {
  const auto notes_with = [](const std::vector<double>& trials) {
    return charts::batch_scaling(dataset_of({make_result({}, six(100), with_request("images", 1)),
                                             make_result({}, trials, with_request("images", 2))}))
        .charts.at(0)
        .notes;
  };
  const std::string whiskers = "Whiskers are the 95% interval of the median.";
  EXPECT_THAT(notes_with(six(200)), ElementsAre(whiskers));
  EXPECT_THAT(notes_with({200, 201}),
              ElementsAre(whiskers, "1 point has no whisker: 2 trials give no 95% interval, 6 would."));
}

TEST(ChartNotes, SweepsSayHowManyConfigurationsAreNotDrawn) {
  std::vector<Result> results;
  for (const int images : {1, 2})
    for (const char* name : {"", "arena", "fuse", "bf16", "tile"})
      results.push_back(make_result(*name == 0 ? std::vector<std::string>{} : std::vector<std::string>{name}, six(100),
                                    with_request("images", images)));
  EXPECT_THAT(charts::batch_scaling(dataset_of(results)).charts.at(0).notes,
              Contains("3 more configurations are in the table of measurements."));
}

TEST(ChartNotes, AFactorWithoutAnIntervalSaysWhy) {
  std::vector<Result> results = {make_result({}, six(100)), make_result({"fuse"}, six(50))};
  const std::string why = "Factors without an interval: one process says nothing of how processes differ.";
  EXPECT_THAT(charts::speedup_comparison(dataset_of(results)).charts.at(0).notes, Not(Contains(why)));
  for (Result& result : results) result.trials[0].process.assign(6, 0);
  EXPECT_THAT(charts::speedup_comparison(dataset_of(results)).charts.at(0).notes, Contains(why));
}

TEST(BackendComparison, SaysThatOnlyTheFastestAreDrawn) {
  std::vector<Result> results = {make_result({}, six(100))};
  for (int i = 0; i < 6; ++i) results.push_back(make_peer(fmt::format("peer {}", i), six(50 + i)));
  const std::string note = "Drawn are the 6 fastest of Headroom, its baseline, and the 6 fastest of other programs.";
  EXPECT_THAT(charts::backend_comparison(dataset_of(results)).charts.at(0).notes, Not(Contains(note)));
  results.push_back(make_peer("peer 6", six(60)));
  EXPECT_THAT(charts::backend_comparison(dataset_of(results)).charts.at(0).notes, Contains(note));
}

TEST(BackendComparison, HasNoNoteOnFactorsWithoutAny) {
  std::vector<Result> results = {make_result({}, six(100)), make_peer("eager", six(50))};
  results[1].unsettled = "other work";
  EXPECT_THAT(charts::backend_comparison(dataset_of(results)).charts.at(0).notes, Each(Not(HasSubstr("The factor"))));
}

// ---- unsettled times are marked everywhere

TEST(ChartNotes, ARooflineDrawsUnsettledKernelsHollowAndTakesNoRoofFromThem) {
  ResultFile file = test::kernel_file();
  test::add_kernel(file, "linear", "linear f32 disturbed", "f32", "matrix", 1e6, 9e9, six(4));
  file.results.back().trials[0].conditions.waited_ms.assign(6, 2);
  const json option = charts::roofline(make_dataset({file})).charts.at(0).option;
  std::size_t hollow = 0, roofs = 0;
  for (const json& series : option["series"]) {
    if (series["name"] == "fastest product in f32, 200 GFLOP/s") {
      EXPECT_EQ(series["data"][0][1], 200e9);
      ++roofs;
    }
    if (series["name"] != "f32") continue;
    for (const json& item : series["data"]) hollow += item.contains("itemStyle") ? 1 : 0;
  }
  EXPECT_EQ(hollow, 1U);
  EXPECT_EQ(roofs, 1U);
}

TEST(ChartNotes, HistoryDrawsUnsettledRevisionsHollow) {
  std::vector<ResultFile> files;
  for (int i = 0; i < 4; ++i) {
    Result result = make_result({}, six(100));
    if (i == 2) result.unsettled = "its rounds disagree";
    files.push_back(make_file({result}, fmt::format("2026-01-0{}T00:00:00Z", i + 1), fmt::format("r{}", i)));
  }
  const Chart chart = charts::history(make_dataset(std::move(files))).charts.at(0);
  std::vector<std::string> roles;
  for (const json& item : chart.option["series"][0]["data"]) roles.push_back(role_of_item(item));
  EXPECT_THAT(roles, ElementsAre("base", "base", "hollow base", "base"));
  EXPECT_THAT(chart.notes, Contains("Hollow points are unsettled (1 of 4: its rounds disagree)."));
}

TEST(ChartNotes, StagesAndStepsSayWhyTimesAreUnsettled) {
  std::vector<Result> results = {make_result({}, six(100)), make_result({"steps=5"}, six(100))};
  for (Result& result : results) {
    test::set_quality(result, "accuracy", 0.9, Interval{0.8, 0.95});
    for (const char* stage : {"encode", "denoise", "decode"}) {
      result.trials.push_back(make_series(stage, Trials{.wall_ms = {1, 1, 1}}));
      result.stages.push_back({.name = stage, .memory_bytes = {}, .weights_bytes = {}, .floor_ms = {}});
    }
  }
  results[1].unsettled = "its rounds disagree";
  const Dataset dataset = dataset_of(results);
  const std::string note = "Unsettled, and nothing is claimed of it: steps=5 (its rounds disagree).";
  EXPECT_THAT(charts::stage_times(dataset).charts.at(0).notes, Contains(note));
  EXPECT_THAT(charts::steps_quality(dataset).charts.at(0).notes, Contains(note));
}

TEST(FusionSpeedup, NamesPairsThatAreUnsettled) {
  ResultFile file = make_file({});
  for (const char* work : {"small", "large"})
    for (const char* form : {"", "apart"}) {
      test::add_kernel(file, "linear", fmt::format("linear {} {}", work, form), "f32", "matrix", 1e6, 1e9, six(4));
      file.results.back().subject.request = {{"case", work}};
      if (*form != 0) file.results.back().subject.request["form"] = form;
    }
  file.results[1].trials[0].conditions.waited_ms.assign(6, 2);
  const Chart chart = charts::fusion_speedup(make_dataset({file})).charts.at(0);
  EXPECT_THAT(chart.option["yAxis"]["data"], ElementsAre("linear large "));
  EXPECT_THAT(chart.notes, Contains(HasSubstr("Unsettled, and nothing is claimed of it: linear small apart (")));
}

// ---- colours and names

TEST(CumulativeImpact, ColoursByTheFactorAndNothingThatDeclined) {
  std::vector<Result> results = {make_result({}, six(100)), make_result({"arena"}, six(80)),
                                 make_result({"arena", "tile"}, six(50))};
  std::erase(results[2].configuration.applied, "tile");
  results[2].configuration.declined = {{"tile", "one image has no tiles"}};
  const json bars = charts::cumulative_impact(dataset_of(results)).charts.at(0).option["series"][1]["data"];
  std::vector<std::string> roles;
  for (const json& bar : bars) roles.push_back(role_of_item(bar));
  EXPECT_THAT(roles, ElementsAre("base", "green", "base", "orange")) << "what declined cannot save";
}

TEST(OptimizationFlow, AChangeNamesTheSwitchesItIncludes) {
  const Chart chart =
      charts::optimization_flow(
          dataset_of({make_result({}, six(100)), make_result({"arena"}, six(99.9)),
                      make_result({"arena", "flash"}, six(99.8)), make_result({"arena", "flash", "fuse"}, six(50))}))
          .charts.at(0);
  EXPECT_THAT(items_of(chart.option["series"][0], "text"), Contains("arena to fuse saves\n250 ms"));
}

TEST(SpeedupComparison, CallsAllTogetherOnlyWhatHasAll) {
  std::vector<Result> results = {make_result({}, six(100)), make_result({"arena"}, six(80)),
                                 make_result({"arena", "fuse"}, six(50))};
  EXPECT_THAT(charts::speedup_comparison(dataset_of(results)).charts.at(0).option["yAxis"]["data"],
              Contains("all together"));
  results.push_back(make_result({"fuse", "bf16", "tile"}, six(40)));
  const Chart chart = charts::speedup_comparison(dataset_of(results)).charts.at(0);
  EXPECT_THAT(chart.option["yAxis"]["data"], AllOf(Contains("arena+fuse"), Not(Contains("all together"))));
  EXPECT_THAT(chart.notes, Each(Not(HasSubstr("All together"))));
}

TEST(FrechetTime, TellsWorksApartWhoseConfigurationsHaveOneName) {
  std::vector<Result> results = {make_result({}, six(100)), make_result({}, six(50), with_request("steps", 20)),
                                 make_result({"fuse"}, six(40), with_request("steps", 20))};
  for (std::size_t i = 0; i < results.size(); ++i)
    test::set_quality(results[i], "frechet_distance", 0.1 + 0.1 * static_cast<double>(i));
  const json points = charts::frechet_time(dataset_of(results)).charts.at(0).option["series"][2];
  EXPECT_THAT(items_of(points, "text"), UnorderedElementsAre("baseline (10 steps)", "baseline (20 steps)", "fuse"));
}

TEST(ParetoNote, SpeaksOfALineOnlyWhereOneIsDrawn) {
  std::vector<Result> results = {make_result({}, six(1)), make_result({"steps=4"}, six(1))};
  for (std::size_t i = 0; i < 2; ++i) {
    test::set_memory(results[i], 4'000'000, 4'000'000, 4'000'000);
    const double accuracy = 0.98 + 0.003 * static_cast<double>(i);
    test::set_quality(results[i], "accuracy", accuracy, Interval{accuracy - 0.02, accuracy + 0.01});
  }
  const Chart chart = charts::accuracy_size(dataset_of(results)).charts.at(0);
  EXPECT_THAT(chart.option["series"][0]["data"], SizeIs(1));
  EXPECT_THAT(chart.notes.front(), AllOf(HasSubstr("Orange points are"), Not(HasSubstr("dashed line"))));
}

TEST(ParetoNote, SpeaksOfNoFrontierWhereNoTimeIsSettled) {
  std::vector<Result> results = {make_result({}, six(100)), make_result({"fuse"}, six(50))};
  for (Result& result : results) {
    test::set_quality(result, "frechet_distance", 0.1);
    result.unsettled = "its rounds disagree";
  }
  EXPECT_THAT(charts::frechet_time(dataset_of(results)).charts.at(0).notes.front(),
              AllOf(HasSubstr("No time is settled, so no point is on a Pareto frontier."), Not(HasSubstr("range"))));
}

TEST(LossComparison, EndsBeyondWhiskersAndTheLimit) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"bf16"}, {1})};
  for (Result& result : results) test::set_quality(result, "flicker", 0.436, Interval{0.34, 0.52});
  const json axis = charts::loss_comparison(dataset_of(results)).charts.at(0).option["xAxis"];
  EXPECT_FALSE(axis.contains("max")) << "the whiskers reach further than the limit at 0.446";
}

TEST(LossComparison, DrawsABaselineThatWasAskedForByNameAsOne) {
  std::vector<Result> results = {make_result({"baseline"}, {1}), make_result({"lossless"}, {1})};
  for (Result& result : results) test::set_quality(result, "relative_l2", 0.01);
  const json bars = charts::loss_comparison(dataset_of(results)).charts.at(0).option["series"][0]["data"];
  EXPECT_EQ(role_of_item(bars[0]), "base");
  EXPECT_EQ(role_of_item(bars[1]), "blue");
}

TEST(SizeReduction, ATitleAndAFactorAreOfWhatIsDrawn) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"arena", "bf16"}, {1})};
  test::set_memory(results[0], 4'000'000, 4'000'000, 4'000'000);
  test::set_memory(results[1], 3'996'000, 4'000'000, 4'000'000);
  const Chart chart = charts::size_reduction(dataset_of(results)).charts.at(0);
  EXPECT_EQ(chart.title, "Size of the weights with all switches");
  EXPECT_THAT(items_of(chart.option["series"][1], "text"), Contains("3.81 MiB  0.1% smaller"));
}

TEST(TensorCoreAnalysis, ExplainsTheColoursThatItHas) {
  EXPECT_THAT(charts::tensor_core_analysis(make_dataset({test::kernel_file()})).charts.at(0).notes,
              Contains("Computed in: grey f32; blue bf16."));
}

TEST(AttentionComparison, ExplainsGreyOnlyWhereItIs) {
  EXPECT_THAT(charts::attention_comparison(make_dataset({test::kernel_file()})).charts.at(0).notes,
              Each(Not(HasSubstr("Grey"))));
}

TEST(StepResolutionHeatmap, NamesItsUnit) {
  std::vector<Result> results;
  for (const int steps : {1, 2})
    for (const int rows : {16, 32}) {
      Subject subject = with_request("steps", steps);
      subject.request.update({{"token_rows", rows}, {"pass", "frame"}});
      subject.request.erase("images");
      results.push_back(make_result({}, six(10), subject, "forward"));
    }
  EXPECT_EQ(charts::step_resolution_heatmap(dataset_of(results)).charts.at(0).title,
            "Seconds for a forward pass, by steps and resolution: baseline");
}

TEST(LatencyDistribution, TellsOnlyPercentilesThatTheTrialsHave) {
  std::vector<double> trials;
  for (int i = 0; i < 100; ++i) trials.push_back(10 + 0.01 * i);
  const json violins =
      charts::latency_distribution(dataset_of({make_result({}, trials), make_result({"fuse"}, six(5))}))
          .charts.at(0)
          .option["series"][0]["data"];
  EXPECT_NE(test::tip_text(violins[0], "99th percentile"), "(no such row)");
  EXPECT_EQ(test::tip_text(violins[0], "99.9th percentile"), "(no such row)");
  EXPECT_EQ(test::tip_text(violins[1], "95th percentile"), "(no such row)") << "of six trials";
}

// ---- sweeps

/// A U-Net's passes at four sizes, two of one area, in the named configurations; a size's factor of `fuse` is its
/// number plus two.
std::vector<Result> sized_passes(const std::vector<std::string>& names) {
  std::vector<Result> results;
  double factor = 2;
  for (const auto& [width, height] : std::vector<std::pair<int, int>>{{256, 256}, {512, 256}, {256, 512}, {512, 512}}) {
    const Subject subject{.name = "a-unet", .request = {{"width", width}, {"height", height}, {"pass", "forward"}}};
    results.push_back(make_result({}, six(1000), subject, "forward"));
    for (const std::string& name : names)
      results.push_back(make_result({name}, six(1000 / factor), subject, "forward"));
    factor += 1;
  }
  return results;
}

TEST(ResolutionScaling, KeepsSizesOfOneArea) {
  const json option = charts::resolution_scaling(dataset_of(sized_passes({"fuse"}))).charts.at(0).option;
  EXPECT_THAT(option["xAxis"]["data"], ElementsAre("256x256", "256x512", "512x256", "512x512"));
  EXPECT_THAT(option["series"][0]["data"], SizeIs(4));
}

TEST(ResolutionSpeedup, DrawsOnlySizesWithAFactorAndSaysWhatDeclined) {
  std::vector<Result> results = sized_passes({"fuse"});
  results[1].unsettled = "other work";  // at 256x256
  results[7].configuration.applied.clear();
  results[7].configuration.declined = {{"fuse", "nothing to fuse"}};  // at 512x512
  const Chart chart = charts::resolution_speedup(dataset_of(results)).charts.at(0);
  EXPECT_THAT(chart.option["xAxis"]["data"], ElementsAre("256x512", "512x256", "512x512"));
  EXPECT_THAT(items_of(chart.option["series"][0], "text"), ElementsAre("4.00x", "3.00x", "5.00x"));
  EXPECT_THAT(chart.notes, Contains("fuse: fuse declined (512x512): nothing to fuse"));
}

TEST(ResolutionSpeedup, DashesLinesOfOneColour) {
  const json option =
      charts::resolution_speedup(dataset_of(sized_passes({"a", "b", "c", "d", "e", "f"}))).charts.at(0).option;
  std::set<std::string> drawn;
  for (const json& line : option["series"])
    if (line["type"] == "line") drawn.insert(line["lineStyle"]["color"].dump() + line["lineStyle"]["type"].dump());
  EXPECT_THAT(drawn, SizeIs(6));
}

TEST(ResolutionFit, SaysWhatHollowPointsAre) {
  std::vector<Result> results = sized_passes({"fuse"});
  results[7].unsettled = "other work";
  EXPECT_THAT(charts::resolution_fit(dataset_of(results)).charts.at(0).notes,
              AllOf(Contains("Hollow points are unsettled, and no line is fitted to them."),
                    Contains("fuse is unsettled, and nothing is claimed of it: 512x512.")));
}

TEST(AttentionLengths, DashesLinesOfOneColour) {
  ResultFile file = make_file({});
  for (const char* kernel : {"a", "b", "c", "d"})
    for (const int tokens : {1024, 2048}) {
      const std::string operand = fmt::format("bf16[1, 16, {}, 128]", tokens);
      test::add_kernel(file, "attention", fmt::format("attention {} {}", kernel, tokens), "bf16", "matrix", 1, 1,
                       six(4));
      file.results.back().subject.request = {
          {"inputs", json::array({operand, operand, operand})}, {"outputs", json::array({operand})}, {"by", kernel}};
      file.plans.at(*file.results.back().plan).nodes[0].kernel = kernel;
    }
  std::set<std::string> drawn;
  const json series = charts::attention_lengths(make_dataset({file})).charts.at(0).option["series"];
  for (const json& line : series)
    if (line["type"] == "line") drawn.insert(line["lineStyle"]["color"].dump() + line["lineStyle"]["type"].dump());
  EXPECT_THAT(drawn, SizeIs(4));
}

TEST(ResolutionScaling, LabelsKeepClearOfLinesThatPass) {
  std::vector<Result> results = sized_passes({"fuse"});
  results.erase(results.begin() + 2);  // the baseline of 512x256, where its line passes at 1000 ms
  for (Result& result : results)
    if (!result.configuration.asked.empty()) result.trials = make_result({}, six(980), {}, "forward").trials;
  const json option = charts::resolution_scaling(dataset_of(results)).charts.at(0).option;
  for (const json& series : option["series"])
    if (series["type"] == "scatter" && series["name"] == "fuse") {
      for (const json& item : series["data"]) EXPECT_EQ(item["label"]["position"], "bottom") << item;
    }
}

TEST(SizeScaling, NamesTheModels) {
  std::vector<Result> results;
  for (const auto& [name, parameters] : std::map<std::string, std::int64_t>{{"large", 8000}, {"small", 1000}}) {
    Subject subject = test::denoise_subject();
    subject.name = name;
    subject.parameters = parameters;
    results.push_back(make_result({}, six(10), subject));
  }
  EXPECT_THAT(charts::size_scaling(dataset_of(results)).charts.at(0).notes,
              Contains("Models from left to right: small (1000 parameters), large (8000 parameters)."));
}

}  // namespace
}  // namespace headroom
