#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// Runs the pass; expects that many rewrites and the same results.
Graph fuse_residuals(std::string_view text, int rewrites) {
  const Graph original = parse_graph(text);
  Graph graph = original;
  EXPECT_EQ(run_pass("fuse-residual", graph, kGeneratingGpu).rewrites, rewrites);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), 1e-12);
  return graph;
}
std::ptrdiff_t count_of(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

/// Attention over pixels: the resulting tokens become an image, which is added to the input image.
constexpr std::string_view kImage = R"(graph g {
  input %seen: f32[2, 12, 3]
  input %x: f32[2, 5, 4, 3]
  param %w: f32[5, 3]
  param %b: f32[5]
  %0: f32[2, 5, 4, 3] channels_last = reshape(%x) {shape = [2, 5, 4, 3]}
  %1: f32[2, 12, 5] = linear(%seen, %w, %b) @ to_out
  %2: f32[2, 5, 12] = transpose(%1) {perm = [0, 2, 1]}
  %3: f32[2, 5, 4, 3] = reshape(%2) {shape = [2, 5, 4, 3]}
  %4: f32[2, 5, 4, 3] channels_last = reshape(%3) {shape = [2, 5, 4, 3]}
  %5: f32[2, 5, 4, 3] channels_last = add(%4, %0) @ sum
  %6: f32[2, 5, 4, 3] = reshape(%5) {shape = [2, 5, 4, 3]}
  output y = %6
})";

TEST(FuseResidual, AddsAnImageWhereTheMatmulIsStored) {
  const Graph graph = fuse_residuals(kImage, 1);
  EXPECT_EQ(count_of(graph, Op::kLinear), 0);
  EXPECT_EQ(count_of(graph, Op::kAdd), 0);
  const auto conv = std::ranges::find(graph.nodes(), Op::kConv2d, &Node::op);
  ASSERT_NE(conv, graph.nodes().end());
  EXPECT_EQ(conv->path, "to_out");
  ASSERT_EQ(conv->inputs.size(), 4U);
  EXPECT_EQ(graph.type(conv->inputs[0]),
            (TensorType{.shape = {2, 3, 4, 3}, .layout = Layout::kChannelsLast}));  // [b, c, h, w] of %seen
}

TEST(FuseResidual, GivesAMatmulIn8BitsTheImageAsTokens) {
  const Graph graph = fuse_residuals(R"(graph g {
  input %seen: f32[2, 12, 16]
  input %x: f32[2, 32, 4, 3]
  param %w: f8e4m3[32, 16]
  param %scale: f32[32]
  param %b: f32[32]
  %0: f32[2, 32, 4, 3] channels_last = reshape(%x) {shape = [2, 32, 4, 3]}
  %1: f8e4m3[2, 12, 16], %2: f32[2, 12] = quantize(%seen) {dtype = f8e4m3}
  %3: f32[2, 12, 32] = scaled_linear(%1, %2, %w, %scale, %b) @ to_out
  %4: f32[2, 32, 12] = transpose(%3) {perm = [0, 2, 1]}
  %5: f32[2, 32, 4, 3] = reshape(%4) {shape = [2, 32, 4, 3]}
  %6: f32[2, 32, 4, 3] channels_last = reshape(%5) {shape = [2, 32, 4, 3]}
  %7: f32[2, 32, 4, 3] channels_last = add(%6, %0) @ sum
  %8: f32[2, 32, 4, 3] = reshape(%7) {shape = [2, 32, 4, 3]}
  output y = %8
})",
                                     1);
  EXPECT_EQ(count_of(graph, Op::kAdd), 0);
  const auto matmul = std::ranges::find(graph.nodes(), Op::kScaledLinear, &Node::op);
  ASSERT_NE(matmul, graph.nodes().end());
  ASSERT_EQ(matmul->inputs.size(), 6U);
  EXPECT_EQ(graph.type(matmul->inputs[5]), (TensorType{.shape = {2, 12, 32}}));
}

TEST(FuseResidual, IsForGpus) {
  Graph graph = parse_graph(kImage);
  EXPECT_EQ(run_pass("fuse-residual", graph, kCapableCpu).rewrites, 0);
}

std::string tokens(std::string_view activation, std::string_view behind) {
  return fmt::format(R"(graph g {{
  input %x: f32[2, 12, 5]
  input %hidden: f32[2, 12, 7]
  param %w: f32[5, 7]
  param %b: f32[5]
  %0: f32[2, 12, 5] = linear(%hidden, %w, %b) {{activation = "{}"}} @ ff
  %1: f32[2, 12, 5] = add(%x, %0) @ sum
  %2: f32[2, 12, 5] = {}
  output y = %2
}})",
                     activation, behind);
}

TEST(FuseResidual, AddsTokensToTokens) {
  const Graph graph = fuse_residuals(tokens("none", "mul_scalar(%1) {value = 2}"), 1);
  EXPECT_EQ(count_of(graph, Op::kConv2d), 1);
  EXPECT_EQ(count_of(graph, Op::kAdd), 0);
}

TEST(FuseResidual, LeavesSumsToTheNormsThatReadThem) {
  EXPECT_EQ(count_of(fuse_residuals(tokens("none", "layer_norm(%1) {eps = 1e-05}"), 0), Op::kAdd), 1);
}

TEST(FuseResidual, LeavesWhatIsActivatedFirst) { fuse_residuals(tokens("silu", "mul_scalar(%1) {value = 2}"), 0); }

/// Rows in the other order would have to be copied.
TEST(FuseResidual, LeavesRowMajorImages) {
  fuse_residuals(R"(graph g {
  input %seen: f32[2, 12, 3]
  input %x: f32[2, 5, 4, 3]
  param %w: f32[5, 3]
  param %b: f32[5]
  %0: f32[2, 12, 5] = linear(%seen, %w, %b) @ to_out
  %1: f32[2, 5, 12] = transpose(%0) {perm = [0, 2, 1]}
  %2: f32[2, 5, 4, 3] = reshape(%1) {shape = [2, 5, 4, 3]}
  %3: f32[2, 5, 4, 3] = add(%x, %2) @ sum
  output y = %3
})",
                 0);
}

}  // namespace
}  // namespace headroom
