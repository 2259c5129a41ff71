#include <gmock/gmock.h>

#include <string>

#include "base/error.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A model of one matmul that reads the noise level, and Euler's sampler.
constexpr const char* kModel = R"(graph g {
      input %times: f32[5, 1]
      input %steps: f32[5, 1, 1]
      param %w: f32[4, 4]
      state %x: f32[1, 2, 4]
      loop 5 %step {
        %1: f32[1] = row(%times, %step) @ sampler
        %2: f32[1, 1] = row(%steps, %step) @ sampler
        %3: f32[1, 4] = timestep_embedding(%1) {dim = 4, scale = 1} @ time
        %4: f32[1, 2, 4] = add(%x, %3) @ head
        %5: f32[1, 2, 4] = linear(%4, %w) @ head
        %6: f32[1, 2, 4] = mul(%5, %2) @ sampler
        %7: f32[1, 2, 4] = add(%x, %6) @ sampler
        next %x = %7
      }
      output x = %x
    })";

TEST(VelocityCache, SkipsTheModel) {
  Graph graph = parse_graph(kModel);
  EXPECT_EQ(run_pass("meancache", graph, kCapableCpu, "3:schedule=11010").rewrites, 1);
  for (const Node& node : graph.nodes()) {
    const bool is_of_model = node.path == "head" || node.path == "time";
    EXPECT_EQ(is_of_model, graph.region(node.region).kind == RegionKind::kElse && node.path != "meancache")
        << describe(node);
  }
}

/// A velocity that is linear in the noise level is reproduced exactly, from any number of computed steps; here two.
TEST(VelocityCache, FollowsAStraightLine) {
  const std::string text = [] {
    std::string linear = kModel;
    // No sine and cosine, nor one of x: the level itself.
    const std::string from = "%4: f32[1, 2, 4] = add(%x, %3) @ head", to = "%4: f32[1, 2, 4] = mul(%c, %1) @ head";
    linear.replace(linear.find(from), from.size(), to);
    const std::string param = "param %w: f32[4, 4]";
    return linear.replace(linear.find(param), param.size(), "input %c: f32[1, 2, 4]\n      " + param);
  }();
  // The embedding remains, unread, and identifies the level.
  const Graph original = parse_graph(text);
  for (const std::string argument : {"2:schedule=11000", "3:schedule=11010", "4"}) {
    Graph graph = original;
    run_pass("meancache", graph, kCapableCpu, argument);
    EXPECT_LE(distance(interpret_on_random(graph, 4), interpret_on_random(original, 4)), 1e-9) << argument;
  }
  Graph held = original;
  run_pass("meancache", held, kCapableCpu, "1:schedule=10000");
  EXPECT_GE(distance(interpret_on_random(held, 4), interpret_on_random(original, 4)), 1e-3);
}

/// Heun's method calls the model twice at a level; there is no slope between these calls.
TEST(VelocityCache, HasNoSlopeBetweenTwoCallsAtOneLevel) {
  Graph graph = parse_graph(kModel);
  run_pass("meancache", graph, kCapableCpu, "3:schedule=11010");
  NamedTensors inputs = random_tensors(graph, ValueKind::kInput, 4);
  inputs.at("times").set(1, inputs.at("times").at(0));
  const OracleResult result = interpret(graph, inputs, random_tensors(graph, ValueKind::kParam, 4),
                                        random_tensors(graph, ValueKind::kState, 4));
  for (const auto& [name, tensor] : result.outputs)
    for (std::int64_t i = 0; i < tensor.numel(); ++i) EXPECT_TRUE(std::isfinite(tensor.at(i))) << name;
}

TEST(VelocityCache, RecordsTheVelocityOfEveryStep) {
  const Graph original = parse_graph(kModel);
  Graph graph = original;
  EXPECT_EQ(record_velocities(graph), std::nullopt);
  verify(graph);
  const OracleResult plain = interpret_on_random(original, 4), recorded = interpret_on_random(graph, 4);
  EXPECT_EQ(distance({{"x", recorded.outputs.at("x")}}, {{"x", plain.outputs.at("x")}}), 0);
  // x ends as it began plus, for each step, the velocity times the step's length.
  const NamedTensors inputs = random_tensors(graph, ValueKind::kInput, 4);
  HostTensor x = random_tensors(graph, ValueKind::kState, 4).at("x");
  const HostTensor& velocities = recorded.outputs.at(std::string(kVelocities));
  ASSERT_EQ(velocities.shape(), (Shape{5, x.numel()}));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double sum = x.at(i);
    for (std::int64_t step = 0; step < 5; ++step)
      sum += velocities.at(step * x.numel() + i) * inputs.at("steps").at(step);
    EXPECT_NEAR(recorded.outputs.at("x").at(i), sum, 1e-5);
  }

  Graph without = parse_graph("graph g {\n input %x: f32[2]\n output y = %x\n }");
  EXPECT_THAT(record_velocities(without).value_or(""), HasSubstr("no denoise loop"));
}

TEST(VelocityCache, DeclinesWhereNothingIsSkippedOrNoVelocityIsFound) {
  const auto declined = [](const std::string& text, const std::string& argument) {
    Graph graph = parse_graph(text);
    const std::string before = canonical_text(graph);
    const PassOutcome outcome = run_pass("meancache", graph, kCapableCpu, argument);
    EXPECT_EQ(outcome.rewrites, 0);
    EXPECT_EQ(canonical_text(graph), before);
    return outcome.declined.value_or("");
  };
  EXPECT_THAT(declined(kModel, "5"), HasSubstr("all of the 5 steps are computed"));
  EXPECT_THAT(declined(kModel, "9"), HasSubstr("all of the 5 steps are computed"));
  std::string other = kModel;
  for (std::size_t at = other.find("@ sampler"); at != std::string::npos; at = other.find("@ sampler"))
    other.replace(at, 9, "@ other");
  EXPECT_THAT(declined(other, "2"), HasSubstr("does not read one velocity"));
  EXPECT_THAT(declined("graph g {\n input %x: f32[2]\n output y = %x\n }", "2"), HasSubstr("no denoise loop"));
}

TEST(VelocityCache, RefusesAScheduleOfOtherThanItsSteps) {
  Graph graph = parse_graph(kModel);
  EXPECT_THROW(run_pass("meancache", graph, kCapableCpu, "2:schedule=11010"), Error);
  EXPECT_THROW(run_pass("meancache", graph, kCapableCpu, "0"), Error);
}

TEST(VelocityCache, SpreadsItsSteps) {
  const auto at = [](std::int64_t computed, std::int64_t steps) {
    std::vector<int> places;
    const std::vector<bool> spread = spread_steps(computed, steps);
    for (std::size_t i = 0; i < spread.size(); ++i)
      if (spread[i]) places.push_back(static_cast<int>(i));
    return places;
  };
  EXPECT_EQ(at(1, 5), (std::vector<int>{0}));
  EXPECT_EQ(at(2, 5), (std::vector<int>{0, 4}));
  EXPECT_EQ(at(9, 5), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(at(10, 28), (std::vector<int>{0, 3, 6, 9, 12, 15, 18, 21, 24, 27}));
  for (std::int64_t steps = 1; steps < 40; ++steps)
    for (std::int64_t computed = 1; computed <= steps; ++computed)
      EXPECT_EQ(std::ssize(at(computed, steps)), computed) << computed << " of " << steps;
}

}  // namespace
}  // namespace headroom
