#include "measure/probes/prediction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "ir/builder.hpp"
#include "measure/probes/switch_predictions.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

/// Times by a formula: costs of 1 ms per million FLOPs or of 1 ms per megabyte, and a fixed time for each launch.
class FixedClock final : public LaunchClock {
 public:
  double cost_ms(const Step& launch) override { return std::max(launch.cost.flops, launch.cost.bytes) / 1e6; }
  double alone_ms(const Step& launch) override {
    ++timed;
    const bool is_row_major = launch.op == Op::kConv2d && launch.spec.inputs[0].layout == Layout::kRowMajor;
    const double ms = (0.5 + 2 * cost_ms(launch)) * (is_row_major ? row_major : 1);
    return launch.cost.flops > 3e6 && launch.cost.flops < 5e6 ? odd * ms : ms;
  }
  double submit_ms() override { return submit; }

  double submit = 0, odd = 1, row_major = 1;  // the last: factor of convolutions on row-major images
  int timed = 0;
};

class PredictionTest : public testing::Test {
 protected:
  /// A chain of matmuls [rows, 100] x [100, 100], of 0.02 million FLOPs a row.
  Program chain(std::initializer_list<std::int64_t> rows) {
    Graph graph("chain");
    Builder b(graph);
    for (const std::int64_t one : rows) {
      const std::string at = std::to_string(graph.nodes().size());
      graph.add_output("y" + at, b.linear(graph.add_input("x" + at, {DType::kF32, {one, 100}}),
                                          graph.add_param("w" + at, {DType::kF32, {100, 100}})));
    }
    return plan(std::move(graph), backend_->properties().target, {.arena = true});
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  FixedClock clock_;
  StepPredictor predictor_{clock_};
};

TEST(FitRate, IsTheLineThroughTwoLaunches) {
  const KernelRate line = fit_rate({1, 2.5}, {3, 6.5});
  EXPECT_DOUBLE_EQ(line.fixed_ms, 0.5);
  EXPECT_DOUBLE_EQ(line.per_cost, 2);
  EXPECT_DOUBLE_EQ(line.ms(2), 4.5);
  EXPECT_DOUBLE_EQ(fit_rate({1, 1}, {2, 4}).ms(3), 6) << "would begin below zero";
  EXPECT_DOUBLE_EQ(fit_rate({1, 5}, {2, 4}).ms(3), 6) << "would fall";
  EXPECT_DOUBLE_EQ(fit_rate({2, 4}, {2, 4}).ms(3), 6) << "one launch";
}

TEST_F(PredictionTest, RatesAreOfTheSmallestAndTheLargestLaunch) {
  const Program small = chain({50, 100}), large = chain({400, 200, 200, 400});  // 1, 2, 8, 4, 4 and 8 MFLOPs
  const Program* const programs[] = {&small, &large};
  predictor_.learn(programs);
  EXPECT_EQ(clock_.timed, 3) << "the smallest, the largest, and one between them to check";
  for (const LaunchTiming timing : {LaunchTiming::kRates, LaunchTiming::kEach}) {
    EXPECT_NEAR(predictor_.step_ms(small, timing), 1 + 2 * 3, 1e-9);
    EXPECT_NEAR(predictor_.step_ms(large, timing), 2 + 2 * 24, 1e-9);
  }
}

TEST_F(PredictionTest, ARateIsOfOneLayout) {
  const auto convolutions = [&](Layout layout) {
    Graph graph("convolutions");
    Builder b(graph);
    for (const std::int64_t side : {16, 32, 64}) {
      const std::string at = std::to_string(side);
      const ValueId weight = graph.add_param("w" + at, {DType::kF32, {8, 8, 3, 3}});
      graph.add_output("y" + at, b.conv2d(graph.add_input("x" + at, {DType::kF32, {1, 8, side, side}, layout}), weight,
                                          kNoValue, Builder::evenly(1, 1)));
    }
    return plan(std::move(graph), backend_->properties().target, {.arena = true});
  };
  const Program row_major = convolutions(Layout::kRowMajor), last = convolutions(Layout::kChannelsLast);
  const Program* const programs[] = {&row_major, &last};
  clock_.row_major = 10;
  predictor_.learn(programs);
  const double ms = predictor_.step_ms(last, LaunchTiming::kRates);
  EXPECT_NEAR(ms, predictor_.step_ms(last, LaunchTiming::kEach), 1e-9);
  EXPECT_NEAR(predictor_.step_ms(row_major, LaunchTiming::kRates), 10 * ms, 1e-9);
}

TEST_F(PredictionTest, TheErrorOfRatesIsThatOfALaunchBetween) {
  const Program chained = chain({50, 200, 400});  // 1, 4 and 8 MFLOPs
  const Program* const programs[] = {&chained};
  clock_.odd = 2;  // the one between takes 17 ms, and the line says 8.5
  predictor_.learn(programs);
  EXPECT_NEAR(predictor_.launch_error(LaunchTiming::kRates), 0.5, 1e-9);
  EXPECT_NEAR(predictor_.step_ms(chained, LaunchTiming::kRates), 2.5 + 8.5 + 16.5, 1e-9);
  EXPECT_NEAR(predictor_.step_ms(chained, LaunchTiming::kEach), 2.5 + 17 + 16.5, 1e-9);
}

TEST_F(PredictionTest, LaunchesThatMakeUpTwoHundredthsOfAStepAreNotTimed) {
  // 1, 2, 3 and 4 of 400 MFLOPs. By the line they take 2.5, 4.5, 6.5 and 8.5 ms of 822.5: the first three under 2%.
  const Program chained = chain({50, 100, 150, 200, 20'000}), large = chain({150});
  const Program* const programs[] = {&chained};
  clock_.odd = 2;
  predictor_.learn(programs);
  clock_.timed = 0;
  EXPECT_NEAR(predictor_.step_ms(chained, LaunchTiming::kEach), 2.5 + 4.5 + 6.5 + 17 + 800.5, 1e-9);
  EXPECT_EQ(clock_.timed, 2);
  const Program* const more[] = {&large};
  predictor_.learn(more);
  EXPECT_NEAR(predictor_.step_ms(chained, LaunchTiming::kEach), 2.5 + 4.5 + 6.5 + 17 + 800.5, 1e-9);
  EXPECT_EQ(clock_.timed, 2 + 3 + 3)
      << "three for the rate, and the third launch too, which is all of the other program";
}

TEST_F(PredictionTest, IsTheMeasuredStepTimesTheRatioOfTheLaunches) {
  const Program now = chain({50, 400}), other = chain({50, 200});
  const Program* const programs[] = {&now, &other};
  predictor_.learn(programs);
  const double now_ms = 19, other_ms = 11;  // 2.5 + 16.5, 2.5 + 8.5
  const PredictedStep step = predictor_.predict(now, {.ms = 20, .error = 0.01}, other, LaunchTiming::kEach);
  EXPECT_NEAR(step.factor, now_ms / other_ms, 1e-9);
  EXPECT_NEAR(step.ms, 20 * other_ms / now_ms, 1e-9);
  const double changed = 1 - 2.5 / now_ms, unexplained = 1 - now_ms / 20;
  EXPECT_NEAR(step.error, std::hypot(0.05 * changed, unexplained * (1 - other_ms / now_ms), 0.01), 1e-9);
  const PredictedStep same = predictor_.predict(now, {.ms = 20, .error = 0.01}, now, LaunchTiming::kRates);
  EXPECT_EQ(same.factor, 1);
  EXPECT_NEAR(same.error, 0.01, 1e-9) << "the same launches have no error but that of the measurement";
}

TEST_F(PredictionTest, TakesOverTheTimesOfTheStep) {
  const Program now = chain({50, 400}), other = chain({50, 200});
  const Program* const programs[] = {&now, &other};
  predictor_.learn(programs);
  // By themselves they take 2.5, 16.5 and 8.5 ms; the first two take twice as long in the step.
  const PredictedStep step =
      predictor_.predict(now, {.ms = 40, .error = 0, .launch_ms = {4, 34}}, other, LaunchTiming::kEach);
  EXPECT_NEAR(step.factor, (4 + 34) / (4 + 2 * 8.5), 1e-9);
  EXPECT_NEAR(step.ms, 40 / step.factor, 1e-9);
  const double changed = 1 - 4.0 / (4 + 34), off = 2.0 / 38, unexplained = 1 - 38.0 / 40;
  EXPECT_NEAR(step.error, std::hypot(std::hypot(0.05, off) * changed, unexplained * (1 - 1 / step.factor)), 1e-9)
      << "each is 1 ms off from twice its time";
  EXPECT_NEAR(predictor_.predict(now, {.ms = 40, .error = 0, .launch_ms = {4, 34}}, other, LaunchTiming::kRates).factor,
              step.factor, 1e-9)
      << "the line through the smallest and the largest gives 8.5 ms too";
}

TEST_F(PredictionTest, AHostThatIsTheLimitTakesAsLongForEachLaunchAsItDid) {
  const Program now = chain({50, 100, 100, 400}), other = chain({50, 400});
  const MeasuredStep time = {.ms = 100, .error = 0, .launch_ms = {2, 4, 4, 16}};
  EXPECT_NEAR(predictor_.predict(now, time, other, LaunchTiming::kEach).factor, 26.0 / 18, 1e-9) << "a CPU has none";
  clock_.submit = 1;  // by itself
  EXPECT_NEAR(predictor_.predict(now, time, other, LaunchTiming::kEach).factor, 2, 1e-9) << "25 ms for each launch";
  Program recorded = chain({50, 400});
  recorded.has_graph = true;
  EXPECT_NEAR(predictor_.predict(now, time, recorded, LaunchTiming::kEach).factor, 100.0 / 18, 1e-9);
}

TEST_F(PredictionTest, AStepIsAtLeastTheTimeInWhichItIsSubmitted) {
  const Program chained = chain({50, 100});
  const Program* const programs[] = {&chained};
  predictor_.learn(programs);
  clock_.submit = 10;
  EXPECT_EQ(predictor_.step_ms(chained, LaunchTiming::kEach), 20);
  Program recorded = chain({50, 100});
  recorded.has_graph = true;
  EXPECT_NEAR(predictor_.step_ms(recorded, LaunchTiming::kEach), 7, 1e-9);
}

TEST_F(PredictionTest, OfSwitchesHasTheLargestGainFirst) {
  const auto compile = [&](const SwitchSet& set) {
    Compiled compiled;
    if (set.has("bf16")) compiled.declined.push_back({"bf16", "no units"});
    compiled.program = std::make_shared<const Program>(set.has("fuse")    ? chain({50})
                                                       : set.has("flash") ? chain({100})
                                                                          : chain({400}));
    return compiled;
  };
  const SwitchSet switches = SwitchSet::parse("arena,fuse");
  const std::vector<SwitchPrediction> all =
      predict_switches(compile(switches), switches, {.ms = 2.5, .error = 0}, compile, clock_);
  ASSERT_GE(all.size(), 4U);
  EXPECT_EQ(all.front().name, "fuse");
  EXPECT_TRUE(all.front().is_on);
  EXPECT_EQ(all.front().set.to_string(), "arena");
  EXPECT_NEAR(all.front().gain(all.front().by_each.factor), 16.5 / 2.5, 1e-9);
  EXPECT_NEAR(all.front().by_each.ms, 16.5, 1e-9);
  EXPECT_LT(all.front().more_bytes, 0) << "350 rows fewer";
  EXPECT_EQ(all.back().name, "bf16");
  EXPECT_EQ(all.back().declined, "no units");
  EXPECT_TRUE(std::ranges::none_of(all, [](const SwitchPrediction& one) {
    return one.name == "fbcache" || one.name == "steps" || one.name == "tf32";
  })) << "steps that are not alike, switches with an argument and those for other devices";
}

}  // namespace
}  // namespace headroom
