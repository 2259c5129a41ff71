// Charts of sweeps, and how charts mark unsettled values.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "measure/protocol/ladder_rounds.hpp"
#include "report/charts/charts.hpp"
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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::vector<double> near(double ms) { return {ms - 1, ms, ms, ms, ms, ms + 1}; }

Subject sized(std::int64_t images, std::int64_t steps, std::int64_t rows) {
  Subject subject = test::denoise_subject();
  subject.request["images"] = images;
  subject.request["steps"] = steps;
  subject.request["token_rows"] = rows;
  return subject;
}

/// `fast` on a CPU with bf16 units; `tile` declines for one image and `hoist` in one step.
std::vector<Result> swept(std::initializer_list<std::int64_t> batches, std::initializer_list<std::int64_t> steps) {
  const std::vector<std::string> fast = {"arena", "flash", "fuse",          "hoist", "bf16",
                                         "int8",  "align", "channels-last", "tile"};
  std::vector<Result> results;
  for (const std::int64_t batch : batches)
    for (const std::int64_t step : steps)
      for (const std::int64_t rows : {16, 32}) {
        results.push_back(make_result({}, near(100), sized(batch, step, rows)));
        results.push_back(make_result(fast, near(50), sized(batch, step, rows)));
        Configuration& configuration = results.back().configuration;
        const auto decline = [&](const std::string& name, const std::string& reason) {
          std::erase(configuration.applied, name);
          configuration.declined.push_back({name, reason});
        };
        if (batch == 1) decline("tile", "one image has no tiles");
        if (step == 1) decline("hoist", "one step has nothing to hoist from");
      }
  for (std::size_t i = 0; i < results.size(); ++i) results[i].id = fmt::format("{}", i);
  return results;
}

ResultFile swept_file(std::initializer_list<std::int64_t> batches, std::initializer_list<std::int64_t> steps) {
  ResultFile file = make_file(swept(batches, steps));
  file.machine.cpu_isa = "amx";
  for (Result& result : file.results) result.subject.token_pixels = 4;
  return file;
}

TEST(BatchScaling, HasALineForWhatWasAskedWhateverDeclined) {
  const Drawn drawn = charts::batch_scaling(make_dataset({swept_file({1, 2, 4}, {4})}));
  ASSERT_THAT(drawn.charts, SizeIs(2)) << "for each size";
  for (const Chart& chart : drawn.charts) {
    EXPECT_EQ(chart.option["series"][0]["name"], "baseline");
    EXPECT_EQ(chart.option["series"][2]["name"], "fast");
    EXPECT_THAT(chart.option["series"][2]["data"], SizeIs(3));
    EXPECT_THAT(chart.notes, Contains("fast: tile declined (1 at once): one image has no tiles"));
  }
}

TEST(BatchScaling, DashesLinesOfOneColour) {
  std::vector<Result> results;
  for (const std::int64_t batch : {1, 2})
    for (const char* const name : {"eager", "compiled", "graphs", "tuned"})
      results.push_back(make_peer(name, near(20), sized(batch, 4, 16)));
  const json series = charts::batch_scaling(make_dataset({make_file(results)})).charts.at(0).option["series"];
  std::map<std::string, int> drawn;  // by colour and dash
  for (const json& line : series)
    if (line["type"] == "line") ++drawn[line["lineStyle"]["color"].dump() + line["lineStyle"]["type"].dump()];
  EXPECT_THAT(drawn, SizeIs(4));
}

TEST(BatchScaling, LabelsEachValueOnItsOwnSide) {
  const auto positions_at_one_image = [](double baseline_ms, double arena_ms) {
    std::vector<Result> results;
    for (const std::int64_t batch : {1, 2}) {
      const double share = static_cast<double>(batch);  // an image takes as long in both
      results.push_back(make_result({}, near(share * baseline_ms), sized(batch, 10, 16)));
      results.push_back(make_result({"arena"}, near(share * arena_ms), sized(batch, 10, 16)));
      results.push_back(make_result({"bf16"}, near(share * 1000), sized(batch, 10, 16)));
    }
    for (std::size_t i = 0; i < results.size(); ++i) results[i].id = fmt::format("{}", i);
    const Dataset dataset = make_dataset({make_file(results)});
    const Drawn drawn = charts::batch_scaling(dataset);
    std::map<std::string, std::string> positions;
    json first;
    for (const json& series : drawn.charts.at(0).option["series"])
      if (series["type"] == "line") {
        first = series["data"][0]["value"][0];
        positions[series["name"]] = "none";
      } else if (series["type"] == "scatter") {  // invisible points that carry the texts
        for (const json& item : series["data"])
          if (item["value"][0] == first) positions[series["name"]] = item["label"]["position"];
      }
    return positions;
  };
  EXPECT_THAT(positions_at_one_image(500, 460),
              UnorderedElementsAre(Pair("bf16", "top"), Pair("baseline", "top"), Pair("arena", "bottom")));
  EXPECT_THAT(positions_at_one_image(960, 500),
              UnorderedElementsAre(Pair("bf16", "top"), Pair("baseline", "bottom"), Pair("arena", "bottom")));
  EXPECT_THAT(positions_at_one_image(140, 120),
              UnorderedElementsAre(Pair("bf16", "top"), Pair("baseline", "top"), Pair("arena", "none")))
      << "a label above would be at the baseline's point, and one below at the axis";
}

TEST(BatchScaling, LabelsAreBeyondWhiskersInTheColourOfTheirLine) {
  std::vector<Result> results;
  for (const std::int64_t batch : {1, 2}) {
    results.push_back(make_result({}, {400, 450, 500, 500, 500, 500, 700, 800}, sized(batch, 10, 16)));
    results.push_back(make_result({"arena"}, near(650), sized(batch, 10, 16)));
  }
  for (std::size_t i = 0; i < results.size(); ++i) results[i].id = fmt::format("{}", i);
  const json series = charts::batch_scaling(make_dataset({make_file(results)})).charts.at(0).option["series"];
  for (const json& line : series) {
    if (line["type"] != "line") continue;
    const auto of_line = [&](std::string_view type) {
      return *std::ranges::find_if(series,
                                   [&](const json& s) { return s["type"] == type && s["name"] == line["name"]; });
    };
    EXPECT_EQ(of_line("custom")["itemStyle"]["color"], line["itemStyle"]["color"]);
    EXPECT_FALSE(line.contains("label"));
    const json text = of_line("scatter")["data"].at(0), whisker = of_line("custom")["data"].at(0);
    EXPECT_EQ(text["value"][1], whisker[text["label"]["position"] == "top" ? 2 : 1]) << line["name"];
  }
}

TEST(StepResolutionHeatmap, DrawsEachConfigurationAndBatch) {
  const Drawn drawn = charts::step_resolution_heatmap(make_dataset({swept_file({1, 2}, {1, 4})}));
  std::vector<std::string> of;
  for (const Chart& chart : drawn.charts) {
    EXPECT_FALSE(chart.variant.empty()) << "else six digits name its file";
    of.push_back(chart.title.substr(chart.title.rfind(' ') + 1) + chart.subtitle.substr(0, chart.subtitle.find(';')));
    EXPECT_THAT(chart.option["series"][0]["data"], SizeIs(4));
    EXPECT_THAT(chart.option["xAxis"]["data"], ElementsAre("64x64", "64x128")) << "in pixels";
  }
  EXPECT_THAT(of, UnorderedElementsAre("baselinetiny-dit, 1 image at once", "fasttiny-dit, 1 image at once",
                                       "baselinetiny-dit, 2 images at once", "fasttiny-dit, 2 images at once"));
}

TEST(StepResolutionHeatmap, HasOneMeasurementACell) {
  ResultFile file = swept_file({1}, {1, 4}), later = swept_file({1}, {1, 4});
  for (Result& result : later.results) std::erase(result.configuration.applied, "align");
  for (Result& result : later.results)
    if (!result.configuration.asked.empty()) result.configuration.declined.push_back({"align", "not here"});
  later.created = "2026-02-02T03:04:05Z";
  for (const Chart& chart : charts::step_resolution_heatmap(make_dataset({file, later})).charts)
    EXPECT_THAT(chart.option["series"][0]["data"], SizeIs(4)) << chart.title;
}

TEST(Charts, DrawUnsettledTimesHollow) {
  std::vector<Result> results = ladder_results();
  for (Result& result : results) test::set_quality(result, "frechet_distance", 0.1);
  results[1].unsettled = "its rounds disagree";
  results[1].quality[0].value = 0.01;
  const Dataset dataset = make_dataset({make_file(results)});
  const json bars = charts::speedup_comparison(dataset).charts.at(0).option["series"][0]["data"];
  EXPECT_EQ(bars[1]["itemStyle"]["borderType"], "dashed");
  EXPECT_FALSE(bars[2]["itemStyle"].contains("borderType"));
  const Chart frechet = charts::frechet_time(dataset).charts.at(0);
  for (const json& item : frechet.option["series"][2]["data"])
    EXPECT_EQ(item["itemStyle"].contains("borderType"), item["text"] == "arena") << item;
  EXPECT_THAT(frechet.option["series"][0]["data"], SizeIs(1)) << "what is not settled is on no frontier";
  EXPECT_THAT(frechet.notes.front(), HasSubstr("Hollow points are unsettled"));
}

TEST(AttentionComparison, DrawsUnsettledKernelsHollow) {
  ResultFile file = test::kernel_file();
  test::add_kernel(file, "attention", "attention f16", "f16", "matrix", 1e6, 2e9, near(4));
  file.results.back().trials[0].conditions.waited_ms.assign(6, 2);
  const Chart chart = charts::attention_comparison(make_dataset({file})).charts.at(0);
  for (const json& bar : chart.option["series"][0]["data"])
    EXPECT_EQ(bar["itemStyle"].contains("borderType"), bar["name"] == "attention f16") << bar;
  EXPECT_THAT(chart.notes, Contains(HasSubstr("Unsettled, and nothing is claimed of it: attention f16 (")));
}

TEST(LatencyDistribution, TellsPeersByColour) {
  const std::vector<Result> results = {make_result({}, near(10)), make_peer("eager", near(20))};
  const json series = charts::latency_distribution(make_dataset({make_file(results)})).charts.at(0).option["series"];
  EXPECT_EQ(series[0]["data"][0]["itemStyle"]["color"]["$color"], "blue");
  EXPECT_EQ(series[0]["data"][1]["itemStyle"]["color"]["$color"], "purple");
  const std::vector<Result> peers = {make_peer("eager", near(20)), make_peer("compiled", near(10))};
  EXPECT_THAT(charts::latency_distribution(make_dataset({make_file(peers)})).charts, IsEmpty());
}

TEST(FrechetTime, NumbersManyPoints) {
  std::vector<Result> results;
  for (int i = 1; i <= 6; ++i) {
    results.push_back(make_result({fmt::format("steps={}", i)}, near(10.0 * i)));
    test::set_quality(results.back(), "frechet_distance", 1.0 / i);
  }
  const Chart chart = charts::frechet_time(make_dataset({make_file(results)})).charts.at(0);
  EXPECT_EQ(chart.option["series"][2]["data"][5]["text"], "6");
  EXPECT_THAT(chart.notes.front(), HasSubstr("Points from left to right: 1 steps=1; 2 steps=2;"));
  results.pop_back();
  const Chart few = charts::frechet_time(make_dataset({make_file(results)})).charts.at(0);
  EXPECT_EQ(few.option["series"][2]["data"][4]["text"], "steps=5");
  EXPECT_THAT(few.notes.front(),
              HasSubstr("Without room for names, points are numbered from left to right: 1 steps=1"));
}

TEST(AccuracySize, NumbersPointsOfOneSizeUpwards) {
  std::vector<Result> results;
  for (int i = 0; i < 4; ++i) {
    results.push_back(make_result({fmt::format("steps={}", i + 1)}, {1}));
    test::set_quality(results.back(), "accuracy", 0.98 - 0.001 * i, Interval{0.95, 1});
    test::set_memory(results.back(), 4'000'000, 4'000'000, 4'000'000);
  }
  const Chart chart = charts::accuracy_size(make_dataset({make_file(results)})).charts.at(0);
  EXPECT_THAT(chart.notes.front(), HasSubstr("from left to right, at one place upwards: 1 steps=4; 2 steps=3;"));
  // On a narrow screen each point has its number, and no two are at one place.
  const json& numbers = chart.option["media"][0]["option"]["series"][3]["data"];
  std::set<std::string> sides;
  for (const json& number : numbers) sides.insert(number["label"]["position"].get<std::string>());
  EXPECT_EQ(numbers[3]["text"], "4");
  EXPECT_GE(sides.size(), 2U);
}

TEST(ByteAxis, HasDivisionsThatItsLabelsFit) {
  std::vector<Result> results = {make_result({}, {1}), make_result({std::string(60, 'n')}, {1})};
  for (std::size_t i = 0; i < 2; ++i) {
    test::set_memory(results[i], 4'000'000, (50 + 100 * static_cast<std::int64_t>(i)) << 20, 150 << 20);
    results[i].memory->untracked_bytes = 14 << 20;
  }
  const json option = charts::memory_usage(make_dataset({make_file(results)})).charts.at(0).option;
  const auto divisions = [](const json& axis) { return axis["max"].get<double>() / axis["interval"].get<double>(); };
  EXPECT_EQ(divisions(option["xAxis"]), 3) << "0, 64, 128 and 192 MiB next to long names and texts";
  EXPECT_LE(divisions(option["media"][0]["option"]["xAxis"]), 3);
}

TEST(AccuracySize, EndsAtAll) {
  std::vector<Result> results = {make_result({}, {1}), make_result({"int8"}, {1})};
  for (std::size_t i = 0; i < 2; ++i) {
    test::set_quality(results[i], "accuracy", 0.98, Interval{0.95, 1});
    test::set_memory(results[i], 4'000'000 >> i, 4'000'000, 4'000'000);
  }
  EXPECT_EQ(charts::accuracy_size(make_dataset({make_file(results)})).charts.at(0).option["yAxis"]["max"], 1);
}

TEST(CumulativeImpact, TellsTheSynergyOfTheTable) {
  const std::vector<std::vector<double>> rungs = {
      {100, 101, 99, 100}, {80, 83, 79, 80}, {125, 120, 126, 125}, {50, 52, 49, 50}};
  const std::vector<std::vector<std::string>> switches = {{}, {"arena"}, {"fuse"}, {"arena", "fuse"}};
  std::vector<Result> results;
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    Result result = make_result(switches[i], {1});
    std::vector<Trials> visits;
    for (std::size_t round = 0; round + (i == 0 ? 0 : 1) < rungs[i].size(); ++round)
      visits.push_back({.wall_ms = {rungs[i][round], rungs[i][round]}, .round = static_cast<std::int64_t>(round)});
    result.trials = {make_series("step", visits)};
    results.push_back(std::move(result));
  }
  const auto rounds = [&](std::size_t i) { return rounds_between(results[0], results[i]); };
  const RoundLogs arena = rounds(1), fuse = rounds(2), both = rounds(3);
  ASSERT_THAT(arena, SizeIs(3));
  const std::vector<Term> terms = {{&arena, -1}, {&fuse, -1}, {&both, 1}};
  const Factor synergy = factor_of(terms);
  const Chart chart = charts::cumulative_impact(make_dataset({make_file(results)})).charts.at(0);
  EXPECT_THAT(chart.notes,
              Contains(HasSubstr(fmt::format("Synergy, their quotient, {:.2f}x [{:.2f}, {:.2f}]: together",
                                             synergy.value, synergy.interval->low, synergy.interval->high))));
}

/// The kernel suite's attention of one length, ours and a peer's.
void add_attention(ResultFile& file, std::int64_t tokens, double ms, double peer_ms, bool is_causal) {
  const std::string operand = fmt::format("bf16[1, 16, {}, 128]", tokens);
  const json request = {{"attributes", {{"causal", is_causal ? "1" : "0"}}},
                        {"inputs", json::array({operand, operand, operand})},
                        {"outputs", json::array({operand})}};
  test::add_kernel(file, "attention", fmt::format("attention of {} tokens{}", tokens, is_causal ? ", causal" : ""),
                   "bf16", "matrix", 1, 1, near(ms));
  file.results.back().subject.request = request;
  Result peer = make_peer("cuDNN", near(peer_ms));
  peer.id = fmt::format("{} {}", tokens, is_causal);
  peer.subject = file.results.back().subject;
  file.results.push_back(std::move(peer));
}

TEST(AttentionLengths, DrawsALineForEachKernelAndPeer) {
  ResultFile file = make_file({});
  for (const bool is_causal : {false, true})
    for (const std::int64_t tokens : {2048, 8192}) add_attention(file, tokens, 10, 20, is_causal);
  const Drawn drawn = charts::attention_lengths(make_dataset({file}));
  ASSERT_THAT(drawn.charts, SizeIs(2));
  const json& dense = drawn.charts[0].option;
  EXPECT_THAT(drawn.charts[0].subtitle, HasSubstr("16 heads of 128;"));
  EXPECT_THAT(drawn.charts[1].subtitle, HasSubstr("16 heads of 128, causal;"));
  EXPECT_EQ(dense["xAxis"]["data"], json({"2048", "8192"}));
  EXPECT_EQ(dense["legend"]["data"].size(), 2);
  const auto rate = [](const json& option, std::size_t line, std::size_t point) {
    return option["series"][2 * line]["data"][point]["value"][1].get<double>();
  };
  EXPECT_DOUBLE_EQ(rate(dense, 0, 0), 4.0 * 16 * 128 * 2048 * 2048 / 0.010);
  EXPECT_DOUBLE_EQ(rate(dense, 1, 1), 4.0 * 16 * 128 * 8192 * 8192 / 0.020);
  EXPECT_DOUBLE_EQ(rate(drawn.charts[1].option, 0, 0), 4.0 * 16 * 128 * 2048 * 2049 / 2 / 0.010);
}

TEST(AttentionLengths, LeavesOutWhatItCannotRead) {
  const json odd[] = {{{"inputs", 3}},
                      {{"inputs", json::array({1, 2, 3})}, {"outputs", json::array({4})}},
                      {{"inputs", json::array({"bf16[1, 1e300, 2, 4]", "q", "["})}, {"outputs", json::array({"x[]"})}},
                      {{"attributes", {{"causal", 1}}}},
                      {{"attributes", {{"causal", "1"}, {"diagonal", "7"}}}},
                      {{"attributes", json::array({"causal"})}}};
  ResultFile file = make_file({});
  for (const json& changed : odd)
    for (const std::int64_t tokens : {2048, 8192}) {
      add_attention(file, tokens, 10, 20, true);
      file.results.back().subject.request.update(changed);
      file.results[file.results.size() - 2].subject.request.update(changed);
      for (std::size_t i = file.results.size() - 2; i < file.results.size(); ++i)
        file.results[i].id = fmt::format("{}", i);
    }
  const Drawn drawn = charts::attention_lengths(make_dataset({file}));
  for (const Chart& chart : drawn.charts)
    EXPECT_THAT(chart.subtitle, HasSubstr("16 heads of 128;")) << "of those not causal";
}

TEST(AttentionLengths, NeedsTwoLengthsInTheSameHeads) {
  ResultFile file = make_file({});
  add_attention(file, 2048, 10, 20, false);
  add_attention(file, 8192, 10, 20, true);
  EXPECT_THAT(charts::attention_lengths(make_dataset({file})).charts, IsEmpty());
}

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
