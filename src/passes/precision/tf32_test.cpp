#include <gmock/gmock.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr Target kTf32Gpu{.device = DeviceKind::kCuda, .compute_capability = 80};

constexpr const char* kTf32Model = R"(graph g {
  input %x: f32[2, 4]
  param %w: f32[4, 4]
  param %v: f32[4, 4]
  %0: f32[4, 4] = linear(%v, %w) @ folded
- %1: f32[2, 4] = linear(%x, %0) {epilogue = silu(sum)} @ a
+ %1: f32[2, 4] = linear(%x, %0) {epilogue = silu(sum), tf32 = 1} @ a
  %2: bf16[2, 4] = cast(%1) {dtype = bf16} @ b
  %3: bf16[2, 2] = matmul(%2, %2) {transpose_b = 1} @ b
- %4: f32[2, 2] = matmul(%1, %1) {transpose_b = 1} @ c
+ %4: f32[2, 2] = matmul(%1, %1) {transpose_b = 1, tf32 = 1} @ c
  output narrow = %3
  output y = %4
})";

TEST(Tf32, AllowsItForContractionsInF32) {
  Graph graph = graph_before(kTf32Model);
  const PassOutcome outcome = run_pass("tf32", graph, kTf32Gpu);
  EXPECT_EQ(outcome.rewrites, 2);
  EXPECT_EQ(outcome.declined, std::nullopt);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kTf32Model)));
  EXPECT_EQ(distance(interpret_on_random(graph, 7), interpret_on_random(graph_before(kTf32Model), 7)), 0);
}

TEST(Tf32, DeclinesWhereNothingIsInF32OrThereIsNoSuchUnit) {
  Graph graph = graph_before(kTf32Model);
  EXPECT_EQ(run_pass("tf32", graph).declined, "TF32 is of NVIDIA's tensor cores, not of a cpu");
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_before(kTf32Model)));
  (void)run_pass("bf16", graph, kTf32Gpu);
  EXPECT_EQ(run_pass("tf32", graph, kTf32Gpu).declined, "the graph has no product in f32");
}

}  // namespace
}  // namespace headroom
