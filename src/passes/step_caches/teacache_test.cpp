#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "passes/step_caches/step_cache.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// Two blocks, of which the first begins with a modulated norm.
constexpr const char* kTwoCachedBlocks = R"(graph g {
      input %shifts: f32[5, 1, 2]
      param %wa: f32[2, 2]
      param %wb: f32[2, 2]
      state %x: f32[1, 3, 2]
      block a
      block b
      loop 5 %step {
        %1: f32[1, 2] = row(%shifts, %step) @ time
        %2: f32[1, 2] = silu(%1) @ a.norm1
        %3: f32[1, 3, 2] = layer_norm(%x) {eps = 0.1} @ a.norm1
        %4: f32[1, 3, 2] = mul(%3, %2) @ a.norm1
        %5: f32[1, 3, 2] = add(%4, %1) @ a.norm1
        %6: f32[1, 3, 2] = linear(%5, %wa) @ a
        %7: f32[1, 3, 2] = add(%x, %6) @ a
        %8: f32[1, 3, 2] = linear(%7, %wb) @ b
        %9: f32[1, 3, 2] = add(%7, %8) @ b
        %10: f32[1, 3, 2] = mul_scalar(%9) {value = 0.9} @ head
        next %x = %10
      }
      output x = %x
    })";

TEST(TeaCache, RunsNoBlockWhereAStepIsAHit) {
  const Graph original = parse_graph(kTwoCachedBlocks);
  Graph graph = original;
  EXPECT_EQ(run_pass("teacache", graph, kCapableCpu, "1e-9").rewrites, 1);
  EXPECT_LE(distance(interpret_on_random(graph, 5), interpret_on_random(original, 5)), 1e-12);
  for (const Node& node : graph.nodes())
    EXPECT_TRUE(node.op != Op::kLinear || graph.region(node.region).kind == RegionKind::kElse) << describe(node);
}

std::string digits(const OracleResult& result) {
  std::string computed;
  const HostTensor& steps = result.outputs.at(std::string(kComputedSteps));
  for (std::int64_t step = 0; step < steps.numel(); ++step) computed += steps.at(step) != 0 ? '1' : '0';
  return computed;
}

TEST(TeaCache, AddsUpTheChangesOfWhatTheFirstBlockReads) {
  Graph graph = parse_graph(kTwoCachedBlocks);
  run_pass("teacache", graph, kCapableCpu, "100:last=0");
  const OracleResult all = interpret_on_random(graph, 5);
  EXPECT_EQ(digits(all), "10000");
  const HostTensor& sums = all.outputs.at(std::string(kCacheDistances));
  for (std::int64_t step = 1; step < 5; ++step) EXPECT_GT(sums.at(step), sums.at(step - 1));

  // With a fit, the polynomial of each change is compared with the threshold.
  Graph fitted = parse_graph(kTwoCachedBlocks);
  run_pass("teacache", fitted, kCapableCpu,
           "100:last=0:schedule=10000:fit=498.651651/-283.781631/55.8554382/-3.82021401/0.264230861");
  const HostTensor fitted_sums = interpret_on_random(fitted, 5).outputs.at(std::string(kCacheDistances));
  double sum = 0;
  for (std::int64_t step = 1; step < 5; ++step) {
    const double d = sums.at(step) - sums.at(step - 1);
    sum +=
        498.651651 * std::pow(d, 4) - 283.781631 * std::pow(d, 3) + 55.8554382 * d * d - 3.82021401 * d + 0.264230861;
    EXPECT_NEAR(fitted_sums.at(step), sum, 1e-6 * std::fabs(sum)) << step;
  }
}

TEST(TeaCache, ComputesTheLastStepByDefault) {
  Graph graph = parse_graph(kTwoCachedBlocks);
  run_pass("teacache", graph, kCapableCpu, "100");
  EXPECT_EQ(digits(interpret_on_random(graph, 5)), "10001");
}

TEST(TeaCache, DeclinesABlockThatBeginsWithoutANorm) {
  std::string text = kTwoCachedBlocks;
  const std::string norm = "layer_norm(%x) {eps = 0.1}";
  text.replace(text.find(norm), norm.size(), "silu(%x)");
  Graph graph = parse_graph(text);
  EXPECT_THAT(run_pass("teacache", graph, kCapableCpu, "0.1").declined.value_or(""), HasSubstr("begin with a norm"));
}

TEST(TeaCache, RefusesAFitThatIsNone) {
  Graph graph = parse_graph(kTwoCachedBlocks);
  for (const char* fit : {"mine", "", "1/", "/1", "1//0", "inf", "1/2/3/4/5/6/7/8/9"})
    EXPECT_THROW(run_pass("teacache", graph, kCapableCpu, fmt::format("0.1:fit={}", fit)), Error) << fit;
  EXPECT_THROW(run_pass("fbcache", graph, kCapableCpu, "0.1:fit=1/0"), Error);
}

}  // namespace
}  // namespace headroom
