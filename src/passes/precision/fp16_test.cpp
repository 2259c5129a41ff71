#include <gmock/gmock.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr Target kFp16Gpu{.device = DeviceKind::kCuda, .compute_capability = 80};

constexpr const char* kFp16Model = R"(graph g {
  input %x: f32[2, 4]
  param %w: bf16[6, 4]
  param %v: f32[3, 6]
+ %6: f16[3, 6] = cast(%v) {dtype = f16} @ fc2
  %0: f32[6, 4] = cast(%w) {dtype = f32} @ fc1
+ %7: f16[6, 4] = cast(%0) {dtype = f16} @ fc1
  %1: f32[2, 4] = mul_scalar(%x) {value = 2} @ begin
+ %8: f16[2, 4] = cast(%1) {dtype = f16} @ begin
- %2: f32[2, 6] = linear(%1, %0) @ fc1
+ %2: f16[2, 6] = linear(%8, %7) @ fc1
- %3: f32[2, 6] = softmax(%2) @ middle
+ %3: f16[2, 6] = softmax(%2) @ middle
- %4: f32[2, 3] = linear(%3, %v) @ fc2
+ %9: f16[2, 3] = linear(%3, %6) @ fc2
+ %4: f32[2, 3] = cast(%9) {dtype = f32} @ fc2
  %5: f32[2, 3] = mul_scalar(%4) {value = 2} @ end
  output y = %5
})";

TEST(Fp16, ConvertsWhatLiesBetweenMatmuls) {
  Graph graph = graph_before(kFp16Model);
  const PassOutcome outcome = run_pass("fp16", graph, kFp16Gpu);
  EXPECT_EQ(outcome.rewrites, 3);
  EXPECT_EQ(outcome.declined, std::nullopt);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kFp16Model)));
  const double error = distance(interpret_on_random(graph, 7), interpret_on_random(graph_before(kFp16Model), 7));
  EXPECT_LE(error, 2e-3);
  EXPECT_GE(error, 1e-5) << "this is not float16";
}

TEST(Fp16, LeavesNothingForBf16AndDeclinesOnCpus) {
  Graph graph = graph_before(kFp16Model);
  EXPECT_EQ(run_pass("fp16", graph).declined, "float16 runs on NVIDIA GPUs, not on a cpu");
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_before(kFp16Model)));
  (void)run_pass("fp16", graph, kFp16Gpu);
  EXPECT_EQ(run_pass("bf16", graph, kFp16Gpu).declined, "the graph has no product in f32");
}

}  // namespace
}  // namespace headroom
