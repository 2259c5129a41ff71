#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// Runs the pass; expects that many rewrites and the same results.
Graph fuse_epilogues(std::string_view text, int rewrites) {
  const Graph original = parse_graph(text);
  Graph graph = original;
  EXPECT_EQ(run_pass("fuse-epilogue", graph, kGeneratingGpu).rewrites, rewrites);
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

TEST(FuseEpilogue, AddsAnImageWhereTheMatmulIsStored) {
  const Graph graph = fuse_epilogues(kImage, 1);
  EXPECT_EQ(count_of(graph, Op::kAdd), 0);
  const auto linear = std::ranges::find(graph.nodes(), Op::kLinear, &Node::op);
  ASSERT_NE(linear, graph.nodes().end());
  EXPECT_EQ(linear->path, "to_out");
  EXPECT_EQ(linear->attributes[attr::kEpilogue].to_text(), "add(sum, e0)");
  ASSERT_EQ(linear->inputs.size(), 4U);
  EXPECT_EQ(graph.type(linear->inputs[3]), (TensorType{.shape = {2, 12, 5}})) << "the image as tokens";
}

TEST(FuseEpilogue, GivesAMatmulIn8BitsTheImageAsTokens) {
  const Graph graph = fuse_epilogues(R"(graph g {
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

TEST(FuseEpilogue, AsksTheKernels) {
  Graph graph = parse_graph(kImage);
  EXPECT_EQ(run_pass("fuse-epilogue", graph, kCapableCpu).rewrites, 0);
  Target cpu = kCapableCpu;
  cpu.fusion = &kGpuRules;
  EXPECT_EQ(run_pass("fuse-epilogue", graph, cpu).rewrites, 0) << "a CPU's kernels do not";
}

std::string tokens(std::string_view activation, std::string_view behind) {
  return fmt::format(R"(graph g {{
  input %x: f32[2, 12, 5]
  input %hidden: f32[2, 12, 7]
  param %w: f32[5, 7]
  param %b: f32[5]
  %0: f32[2, 12, 5] = linear(%hidden, %w, %b) {{epilogue = {}}} @ ff
  %1: f32[2, 12, 5] = add(%x, %0) @ sum
  %2: f32[2, 12, 5] = {}
  output y = %2
}})",
                     activation, behind);
}

TEST(FuseEpilogue, AddsTokensToTokens) {
  expect_rewrite("fuse-epilogue", R"(graph g {
    input %x: f32[2, 12, 5]
    input %hidden: f32[2, 12, 7]
    param %w: f32[5, 7]
    param %b: f32[5]
    - %0: f32[2, 12, 5] = linear(%hidden, %w, %b) @ ff
    - %1: f32[2, 12, 5] = add(%x, %0) @ sum
    + %1: f32[2, 12, 5] = linear(%hidden, %w, %b, %x) {epilogue = add(e0, sum)} @ ff
    output y = %1
})",
                 1, 1e-12, {}, kGeneratingGpu);
}

/// T5 has no biases, and its residual comes second.
TEST(FuseEpilogue, TakesLinearsWithoutBias) {
  const Graph graph = fuse_epilogues(R"(graph g {
  input %x: f32[1, 12, 5]
  input %hidden: f32[1, 12, 7]
  param %w: f32[5, 7]
  %0: f32[1, 12, 5] = linear(%hidden, %w) @ o
  %1: f32[1, 12, 5] = add(%0, %x)
  output y = %1
})",
                                     1);
  ASSERT_EQ(graph.nodes().size(), 1U);
  EXPECT_EQ(graph.nodes()[0].inputs.size(), 3U);
  EXPECT_EQ(graph.nodes()[0].input(Role::kBias), kNoValue) << "the third operand is the epilogue's";
  EXPECT_EQ(graph.nodes()[0].attributes[attr::kEpilogue].to_text(), "add(sum, e0)");
}

TEST(FuseEpilogue, LeavesVectorsToTheActivationsThatFollow) {
  fuse_epilogues(R"(graph g {
  input %x: f32[2, 5]
  input %hidden: f32[2, 7]
  param %w: f32[5, 7]
  %0: f32[2, 5] = linear(%hidden, %w)
  %1: f32[2, 5] = add(%0, %x)
  output y = %1
})",
                 0);
}

TEST(FuseEpilogue, LeavesWhatNoKernelComputes) {
  fuse_epilogues(R"(graph g {
  input %x: f32[1, 12, 5]
  input %hidden: f32[1, 12, 7]
  param %w: f32[5, 7]
  %0: f32[1, 12, 5] = linear(%hidden, %w)
  %1: f32[1, 12, 5] = mul(%0, %x)
  output y = %1
})",
                 0);
}

TEST(FuseEpilogue, LeavesSumsToTheNormsThatReadThem) {
  EXPECT_EQ(count_of(fuse_epilogues(tokens("sum", "layer_norm(%1) {eps = 1e-05}"), 0), Op::kAdd), 1);
}

TEST(FuseEpilogue, LeavesWhatIsActivatedFirst) { fuse_epilogues(tokens("silu(sum)", "mul_scalar(%1) {value = 2}"), 0); }

/// Rows in the other order would have to be copied.
TEST(FuseEpilogue, LeavesRowMajorImages) {
  fuse_epilogues(R"(graph g {
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

TEST(FuseEpilogueIn8Bits, AddsTheResidualWhereTheMatmulIsStored) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %xq: f8e4m3[2, 3, 4]
      input %x_scale: f32[2, 3]
      input %residual: f32[2, 3, 5]
      param %wq: f8e4m3[5, 4]
      param %w_scale: f32[5]
      param %bias: f32[5]
    - %1: f32[2, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %bias) @ proj
    - %2: f32[2, 3, 5] = add(%1, %residual) @ block
    + %2: f32[2, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %bias, %residual) {epilogue = add(sum, e0)} @ proj
      output y = %2
    })",
                 1, 1e-6, {}, kGeneratingGpu);
}

TEST(FuseEpilogueIn8Bits, PutsAGateIntoScalesAndBias) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %xq: f8e4m3[1, 3, 4]
      input %x_scale: f32[1, 3]
      input %r: bf16[1, 3, 5]
      input %gate: bf16[1, 1, 5]
      param %wq: f8e4m3[5, 4]
      param %w_scale: f32[5]
      param %bias: bf16[5]
    - %1: bf16[1, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %bias) {dtype = bf16} @ proj
    - %2: bf16[1, 3, 5] = gate_residual(%r, %gate, %1) @ block
    + %3: f32[5] = cast(%bias) {dtype = f32} @ proj
    + %4: bf16[5] = reshape(%gate) {shape = [5]} @ proj
    + %5: f32[5] = cast(%4) {dtype = f32} @ proj
    + %6: f32[5] = mul(%w_scale, %5) @ proj
    + %7: f32[5] = mul(%3, %5) @ proj
    + %8: bf16[5] = cast(%7) {dtype = bf16} @ proj
    + %2: bf16[1, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %6, %8, %r) {epilogue = add(e0, sum), dtype = bf16} @ proj
      output y = %2
    })",
                 1, 1e-2, {}, kGeneratingGpu);
}

TEST(FuseEpilogueIn8Bits, LeavesWhatTheEpilogueHasNoPlaceFor) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %xq: f8e4m3[2, 3, 4]
      input %iq: i8[2, 3, 4]
      input %x_scale: f32[2, 3]
      input %residual: f32[2, 3, 5]
      input %gate: f32[2, 1, 5]
      input %row: f32[5]
      param %wq: f8e4m3[5, 4]
      param %vq: i8[5, 4]
      param %w_scale: f32[5]
      param %bias: f32[5]
      %1: f32[2, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %bias) {epilogue = silu(sum)}
      %2: f32[2, 3, 5] = add(%1, %residual)
      %3: f32[2, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %bias)
      %4: f32[2, 3, 5] = add(%3, %row)
      %5: f32[2, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %bias)
      %6: f32[2, 3, 5] = gate_residual(%residual, %gate, %5)
      %7: f32[2, 3, 5] = scaled_linear(%iq, %x_scale, %vq, %w_scale, %bias)
      %8: f32[2, 3, 5] = add(%7, %residual)
      %9: f32[2, 3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %bias)
      %10: f32[2, 3, 5] = add(%9, %residual)
      output activated = %2
      output vector = %4
      output gates = %6
      output integers = %8
      output sum = %10
      output product = %9
    })",
                   kGeneratingGpu);
}

TEST(FuseEpilogueIn8Bits, TakesMatmulsWithoutBiasAndSumsThatNormsRead) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %xq: f8e4m3[3, 4]
      input %x_scale: f32[3]
      input %residual: f32[3, 5]
      param %wq: f8e4m3[5, 4]
      param %w_scale: f32[5]
    - %1: f32[3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale)
    - %2: f32[3, 5] = add(%residual, %1)
    + %2: f32[3, 5] = scaled_linear(%xq, %x_scale, %wq, %w_scale, %residual) {epilogue = add(e0, sum)}
      %3: f32[3, 5] = rms_norm(%2) {eps = 1e-6}
      output y = %3
    })",
                 1, 1e-6, {}, kGeneratingGpu);
}

}  // namespace
}  // namespace headroom
