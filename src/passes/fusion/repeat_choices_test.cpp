#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr const char* kChosenVectors = R"(graph g {
  input %x: f32[1, 12, 16]
  input %mask: bool[12, 1]
  input %a: f32[1, 1, 16]
  input %b: f32[1, 1, 16]
  input %w: f32[16, 16]
  %0: f32[1, 12, 16] = select(%mask, %a, %b) @ mod
  %1: f32[1, 12, 16] = add_scalar(%0) {value = 1} @ mod
  %2: f32[1, 12, 16] = mul(%x, %1) @ first
  %3: f32[1, 12, 16] = linear(%2, %w) @ first
  %4: f32[1, 12, 16] = mul(%3, %1) @ second
  output y = %4
})";

TEST(RepeatChoices, ComputeWhatIsChosenForEachReader) {
  const Graph original = parse_graph(kChosenVectors);
  Graph graph = original;
  EXPECT_EQ(run_pass("repeat-choices", graph, kGeneratingGpu).rewrites, 1);
  EXPECT_EQ(graph.nodes().size(), 7U);
  EXPECT_LE(distance(interpret_on_random(graph, 3), interpret_on_random(original, 3)), 0);
  Graph fused = graph;
  EXPECT_EQ(run_pass("fuse-rows", fused, kGeneratingGpu).rewrites, 2);
  EXPECT_EQ(fused.nodes().size(), 3U) << "each multiplication reads the vectors and the mask";
}

TEST(RepeatChoices, LeaveThemWithoutGeneratedKernels) {
  Graph graph = parse_graph(kChosenVectors);
  EXPECT_EQ(run_pass("repeat-choices", graph).rewrites, 0);
  EXPECT_EQ(graph.nodes().size(), 5U);
}

/// A result that is hardly larger than an operand is read again.
TEST(RepeatChoices, LeaveWhatIsNotMuchLargerThanItsOperands) {
  Graph graph = parse_graph(R"(graph g {
  input %a: f32[4, 16]
  input %b: f32[2, 4, 16]
  %0: f32[2, 4, 16] = add(%b, %a)
  %1: f32[2, 4, 16] = exp(%0)
  %2: f32[2, 4, 16] = mul(%1, %0)
  output y = %2
})");
  EXPECT_EQ(run_pass("repeat-choices", graph, kGeneratingGpu).rewrites, 0);
}

}  // namespace
}  // namespace headroom
