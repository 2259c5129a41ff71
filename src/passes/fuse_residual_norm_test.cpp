#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr Target kHopper{.device = DeviceKind::kCuda, .compute_capability = 90};

constexpr const char* kModel = R"(graph g {
  input %residual: f32[2, 3, 16]
  input %x: f32[2, 3, 16]
  input %gate: f32[2, 1, 16]
  input %scale: f32[2, 1, 16]
  input %shift: f32[2, 1, 16]
  %0: f32[2, 3, 16] = gate_residual(%residual, %gate, %x) @ block
  %1: f32[2, 3, 16] = norm_modulate(%0, %scale, %shift) {eps = 1e-06} @ norm
  %2: f32[2, 3, 16] = add(%0, %1) @ next
  output y = %2
})";

TEST(FuseResidualNorm, AddsAndNormsInOnePass) {
  Graph graph = parse_graph(kModel);
  EXPECT_EQ(run_pass("fuse-residual-norm", graph, kHopper).rewrites, 1);
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(R"(graph g {
  input %residual: f32[2, 3, 16]
  input %x: f32[2, 3, 16]
  input %gate: f32[2, 1, 16]
  input %scale: f32[2, 1, 16]
  input %shift: f32[2, 1, 16]
  %0: f32[2, 3, 16], %1: f32[2, 3, 16] = gate_residual_norm(%residual, %gate, %x, %scale, %shift) {eps = 1e-06} @ norm
  %2: f32[2, 3, 16] = add(%0, %1) @ next
  output y = %2
})")));
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(parse_graph(kModel), 7)), 1e-7);
}

TEST(FuseResidualNorm, TakesInAQuantizer) {
  constexpr const char* kQuantized = R"(graph g {
  input %residual: bf16[2, 3, 16]
  input %x: bf16[2, 3, 16]
  input %gate: f32[2, 1, 16]
  input %scale: f32[2, 1, 16]
  input %shift: f32[2, 1, 16]
  %0: bf16[2, 3, 16] = gate_residual(%residual, %gate, %x) @ block
  %1: f8e4m3[2, 3, 16], %2: f32[2, 3] = norm_modulate_quantize(%0, %scale, %shift) {eps = 1e-06, dtype = f8e4m3} @ norm
  output sum = %0
  output q = %1
  output s = %2
})";
  Graph graph = parse_graph(kQuantized);
  EXPECT_EQ(run_pass("fuse-residual-norm", graph, kHopper).rewrites, 1);
  EXPECT_EQ(distance(interpret_on_random(graph, 7), interpret_on_random(parse_graph(kQuantized), 7)), 0);
}

TEST(FuseResidualNorm, LeavesASumThatIsReadBeforeItsNorm) {
  constexpr const char* kText = R"(graph g {
  input %residual: f32[2, 3, 16]
  input %x: f32[2, 3, 16]
  input %gate: f32[2, 1, 16]
  %0: f32[2, 3, 16] = gate_residual(%residual, %gate, %x)
  %1: f32[2, 1, 16] = slice(%0) {axis = 1, start = 0, size = 1}
  %2: f32[2, 3, 16] = norm_modulate(%0, %1, %1) {eps = 1e-06}
  output y = %2
})";
  Graph graph = parse_graph(kText);
  EXPECT_EQ(run_pass("fuse-residual-norm", graph, kHopper).rewrites, 0);
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(kText)));
}

TEST(FuseResidualNorm, LeavesASumThatARegionReturnsBeforeItsNorm) {
  constexpr const char* kText = R"(graph g {
  input %residual: f32[2, 3, 16]
  input %x: f32[2, 3, 16]
  input %gate: f32[2, 1, 16]
  input %is_first: bool[]
  %4: f32[2, 3, 16] = gate_residual(%residual, %gate, %x)
  if %is_first {
    %5: f32[2, 3, 16] = relu(%x)
    yield %6: f32[2, 3, 16] = %5 else %4
  }
  %7: f32[2, 3, 16] = relu(%6)
  %8: f32[2, 3, 16] = norm_modulate(%4, %gate, %gate) {eps = 1e-06}
  output y = %7
  output z = %8
})";
  Graph graph = parse_graph(kText);
  EXPECT_EQ(run_pass("fuse-residual-norm", graph, kHopper).rewrites, 0);
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(kText)));
}

TEST(FuseResidualNorm, LeavesASumThatModulatesItself) {
  constexpr const char* kText = R"(graph g {
  input %residual: f32[2, 1, 16]
  input %x: f32[2, 1, 16]
  input %gate: f32[2, 1, 16]
  %0: f32[2, 1, 16] = gate_residual(%residual, %gate, %x)
  %1: f32[2, 1, 16] = norm_modulate(%0, %gate, %0) {eps = 1e-06}
  output y = %1
})";
  Graph graph = parse_graph(kText);
  EXPECT_EQ(run_pass("fuse-residual-norm", graph, kHopper).rewrites, 0);
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(kText)));
}

TEST(FuseResidualNorm, LeavesCpusAlone) {
  Graph graph = parse_graph(kModel);
  EXPECT_EQ(run_pass("fuse-residual-norm", graph).rewrites, 0);
}

}  // namespace
}  // namespace headroom
