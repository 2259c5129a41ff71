#include "report/advice/synergy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<double> near(double ms) { return {ms * 0.99, ms, ms, ms, ms, ms, ms, ms * 1.01}; }

LadderView first_ladder(const Dataset& dataset) { return *ladder_of(dataset, dataset.scenarios().front()); }

TEST(Synergy, IsTheQuotientOfFactors) {
  const Dataset dataset = test::make_dataset(
      {test::make_file({test::make_result({}, near(100)), test::make_result({"arena"}, near(80)),
                        test::make_result({"fuse"}, near(50)), test::make_result({"arena", "fuse"}, near(20))})});
  const LadderView ladder = first_ladder(dataset);
  const std::vector<Interaction> all = interactions_of(ladder);
  ASSERT_THAT(all, SizeIs(1)) << "a pair is one interaction, not two";
  EXPECT_NEAR(all[0].quotient.value, 2.0, 1e-12) << "5x together; 1.25x and 2x apart";
  ASSERT_TRUE(all[0].quotient.interval);
  EXPECT_GT(all[0].quotient.interval->low, 1.9);
  EXPECT_LT(all[0].quotient.interval->high, 2.1);
}

TEST(Synergy, OfOneProcessHasNoInterval) {
  std::vector<Result> results = {test::make_result({}, near(100)), test::make_result({"arena"}, near(80)),
                                 test::make_result({"fuse"}, near(50)), test::make_result({"arena", "fuse"}, near(20))};
  for (std::int64_t& process : results[2].trials.front().process) process = 0;
  const Dataset dataset = test::make_dataset({test::make_file(results)});
  const std::vector<Interaction> all = interactions_of(first_ladder(dataset));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_NEAR(all[0].quotient.value, 2.0, 1e-12);
  EXPECT_FALSE(all[0].quotient.interval);
}

TEST(Synergy, CountsNoSwitchThatDeclinedAndNothingUnsettled) {
  std::vector<Result> results = {test::make_result({}, near(100)), test::make_result({"arena"}, near(80)),
                                 test::make_result({"fuse"}, near(50)),
                                 test::make_result({"streams", "arena", "fuse"}, near(40))};
  std::erase(results[3].configuration.applied, "streams");
  results[3].configuration.declined = {{"streams", "a CPU has none"}};
  const Dataset dataset = test::make_dataset({test::make_file(results)});
  const LadderView ladder = first_ladder(dataset);
  ASSERT_THAT(interactions_of(ladder), SizeIs(1));
  EXPECT_NEAR(interactions_of(ladder)[0].quotient.value, 1.0, 1e-12);
  results[2].unsettled = "too few rounds";
  const Dataset unsettled = test::make_dataset({test::make_file(results)});
  EXPECT_THAT(interactions_of(first_ladder(unsettled)), IsEmpty());
}

/// Trials of steps in rounds, as a ladder writes them: a time for each round.
Result in_rounds(std::vector<std::string> switches, const std::vector<double>& rounds_ms) {
  Result result = test::make_result(std::move(switches), {1});
  Trials trials;
  std::vector<std::int64_t> round;
  for (std::size_t r = 0; r < rounds_ms.size(); ++r)
    for (const double time : near(rounds_ms[r])) {
      trials.wall_ms.push_back(time);
      round.push_back(static_cast<std::int64_t>(r));
    }
  result.trials = {make_series("step", trials)};
  result.trials.front().round = round;
  return result;
}

TEST(Synergy, OfALadderIsOfTheRoundsThatAllHave) {
  // Over all trials the median of `fuse` would be 500 ms.
  const Dataset dataset = test::make_dataset(
      {test::make_file({in_rounds({}, {100, 100, 100, 100, 100, 100}), in_rounds({"arena"}, {80, 80}),
                        in_rounds({"fuse"}, {50, 50, 500, 500, 500}), in_rounds({"arena", "fuse"}, {40, 40})})});
  const LadderView ladder = first_ladder(dataset);
  ASSERT_THAT(interactions_of(ladder), SizeIs(1));
  EXPECT_NEAR(interactions_of(ladder)[0].quotient.value, 1.0, 0.01);
}

TEST(SwitchSynergy, DrawsALadderInRows) {
  const Drawn drawn = charts::switch_synergy(test::make_dataset({test::make_file(test::ladder_results())}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const Chart& chart = drawn.charts.front();
  EXPECT_THAT(chart.option["yAxis"]["data"], ElementsAre("fuse on arena", "steps=5 on arena+fuse"));
  EXPECT_EQ(test::items_of(chart.option["series"][0], "value")[0][0], 2.0);
  EXPECT_THAT(chart.notes, Contains("n = 6 trials of each configuration or more."));
}

TEST(SwitchSynergy, DrawsPairsAsAHeatmap) {
  const std::vector<std::pair<std::vector<std::string>, double>> measured = {{{}, 100},
                                                                             {{"arena"}, 80},
                                                                             {{"fuse"}, 50},
                                                                             {{"bf16"}, 50},
                                                                             {{"arena", "fuse"}, 20},
                                                                             {{"arena", "bf16"}, 40},
                                                                             {{"fuse", "bf16"}, 40}};
  std::vector<Result> results;
  for (const auto& [switches, ms] : measured) results.push_back(test::make_result(switches, near(ms)));
  const Drawn drawn = charts::switch_synergy(test::make_dataset({test::make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& series = drawn.charts.front().option["series"][0];
  EXPECT_EQ(series["type"], "heatmap");
  EXPECT_THAT(drawn.charts.front().option["xAxis"]["data"], ElementsAre("arena", "fuse"));
  EXPECT_THAT(drawn.charts.front().option["yAxis"]["data"], ElementsAre("fuse", "bf16"));
  ASSERT_THAT(series["data"], SizeIs(3));
  std::vector<std::string> roles;
  for (const json& cell : series["data"]) roles.push_back(test::role_of_item(cell));
  EXPECT_THAT(roles, ElementsAre("green", "track", "purple")) << "2x, 1x whose interval holds 1, and 0.625x";
  EXPECT_THAT(series["data"][0]["text"].get<std::string>(), testing::StartsWith("2.00x\n["));
}

TEST(SwitchSynergy, IsLeftOutWithoutPairs) {
  const Drawn drawn = charts::switch_synergy(
      test::make_dataset({test::make_file({test::make_result({}, near(10)), test::make_result({"fuse"}, near(5))})}));
  EXPECT_THAT(drawn.charts, IsEmpty());
  EXPECT_THAT(drawn.left_out, HasSubstr("headroom ladder"));
}

}  // namespace
}  // namespace headroom
