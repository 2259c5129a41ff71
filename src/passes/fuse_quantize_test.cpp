#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr Target kHopper{.device = DeviceKind::kCuda, .compute_capability = 90};

constexpr const char* kModel = R"(graph g {
  input %x: bf16[2, 3, 16]
  input %scale: bf16[2, 1, 16]
  input %shift: bf16[2, 1, 16]
  %0: bf16[2, 3, 16] = norm_modulate(%x, %scale, %shift) {eps = 1e-06} @ norm
  %1: f8e4m3[2, 3, 16], %2: f32[2, 3] = quantize(%0) {dtype = f8e4m3} @ to_q
  output q = %1
  output s = %2
})";

TEST(FuseQuantize, NormsAndQuantizesInOnePass) {
  Graph graph = parse_graph(kModel);
  EXPECT_EQ(run_pass("fuse-quantize", graph, kHopper).rewrites, 1);
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(R"(graph g {
  input %x: bf16[2, 3, 16]
  input %scale: bf16[2, 1, 16]
  input %shift: bf16[2, 1, 16]
  %0: f8e4m3[2, 3, 16], %1: f32[2, 3] = norm_modulate_quantize(%x, %scale, %shift) {eps = 1e-06, dtype = f8e4m3} @ norm
  output q = %0
  output s = %1
})")));
  // What was rounded to bf16 in between is so no more: a unit of E4M3 here and there.
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(parse_graph(kModel), 7)), 2e-2);
}

TEST(FuseQuantize, LeavesCpusAlone) {
  Graph graph = parse_graph(kModel);
  EXPECT_EQ(run_pass("fuse-quantize", graph).rewrites, 0);
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(kModel)));
}

TEST(FuseQuantize, LeavesANormThatIsReadAsItIs) {
  constexpr const char* kText = R"(graph g {
  input %x: bf16[2, 3, 16]
  input %scale: bf16[2, 1, 16]
  input %shift: bf16[2, 1, 16]
  %0: bf16[2, 3, 16] = norm_modulate(%x, %scale, %shift) {eps = 1e-06}
  %1: f8e4m3[2, 3, 16], %2: f32[2, 3] = quantize(%0) {dtype = f8e4m3}
  output q = %1
  output s = %2
  output normed = %0
})";
  Graph graph = parse_graph(kText);
  EXPECT_EQ(run_pass("fuse-quantize", graph, kHopper).rewrites, 0);
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(kText)));
}

}  // namespace
}  // namespace headroom
