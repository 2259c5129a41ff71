#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// Runs the pass; expects that many rewrites and the same results.
Graph fuse_epilogues(std::string_view text, int rewrites) {
  const Graph original = parse_graph(text);
  Graph graph = original;
  EXPECT_EQ(run_pass("fuse-token-epilogue", graph, kGeneratingGpu).rewrites, rewrites);
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

constexpr std::string_view kGatedLayer = R"(graph g {
  input %x: f32[1, 3, 4]
  param %gate: f32[6, 4]
  param %up: f32[6, 4]
  %0: f32[1, 3, 6] = linear(%x, %gate) @ mlp.gate_proj
  %1: f32[1, 3, 6] = silu(%0) @ mlp
  %2: f32[1, 3, 6] = linear(%x, %up) @ mlp.up_proj
  %3: f32[1, 3, 6] = mul(%1, %2) @ mlp
  output y = %3
})";

TEST(FuseEpilogue, LeavesTheActivationOfAGateToRowsWhereLaunchesCost) {
  Graph graph = parse_graph(kGatedLayer);
  EXPECT_EQ(run_pass("fuse-epilogue", graph, kGeneratingGpu).rewrites, 0);
  EXPECT_EQ(run_pass("fuse-qkv", graph, kGeneratingGpu).rewrites, 1);
  EXPECT_EQ(run_pass("fuse-rows", graph, kGeneratingGpu).rewrites, 1);
  EXPECT_EQ(count_of(graph, Op::kLinear), 1);
  EXPECT_EQ(count_of(graph, Op::kSilu) + count_of(graph, Op::kMul), 0);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(parse_graph(kGatedLayer), 7)), 1e-6);
}

TEST(FuseEpilogue, TakesTheActivationOfAGateWhereLaunchesAreFree) {
  Graph graph = parse_graph(kGatedLayer);
  EXPECT_EQ(run_pass("fuse-epilogue", graph, kCapableCpu).rewrites, 1);
}

/// A factor of another module, or with other readers, is no matmul that fuse-qkv merges with the gate's.
TEST(FuseEpilogue, TakesActivationsOfOtherProducts) {
  for (const auto& [from, to] :
       {std::pair{"linear(%x, %up) @ mlp.up_proj", "linear(%x, %up) @ attn.up_proj"},
        std::pair{"output y = %3", "output y = %3\n  output z = %2"}, std::pair{"mul(%1, %2)", "mul(%1, %1)"}}) {
    std::string text(kGatedLayer);
    text.replace(text.find(from), std::string_view(from).size(), to);
    Graph graph = parse_graph(text);
    EXPECT_EQ(run_pass("fuse-epilogue", graph, kGeneratingGpu).rewrites, 1) << text;
  }
}

TEST(FuseTokenEpilogue, AddsAnImageWhereTheMatmulIsStored) {
  const Graph graph = fuse_epilogues(kImage, 1);
  EXPECT_EQ(count_of(graph, Op::kAdd), 0);
  const auto linear = std::ranges::find(graph.nodes(), Op::kLinear, &Node::op);
  ASSERT_NE(linear, graph.nodes().end());
  EXPECT_EQ(linear->path, "to_out");
  EXPECT_EQ(linear->attributes[attr::kEpilogue].to_text(), "add(sum, e0)");
  ASSERT_EQ(linear->inputs.size(), 4U);
  EXPECT_EQ(graph.type(linear->inputs[3]), (TensorType{.shape = {2, 12, 5}})) << "the image as tokens";
}

TEST(FuseTokenEpilogue, GivesAMatmulIn8BitsTheImageAsTokens) {
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

TEST(FuseTokenEpilogue, AsksTheKernels) {
  Graph graph = parse_graph(kImage);
  EXPECT_EQ(run_pass("fuse-token-epilogue", graph, kCapableCpu).rewrites, 0) << "a CPU's kernels do not";
  Target silent = kGeneratingGpu;
  silent.fusion = nullptr;
  EXPECT_EQ(run_pass("fuse-token-epilogue", graph, silent).rewrites, 0);
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

TEST(FuseTokenEpilogue, AddsTokensToTokens) {
  expect_rewrite("fuse-token-epilogue", R"(graph g {
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
TEST(FuseTokenEpilogue, TakesLinearsWithoutBias) {
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

TEST(FuseTokenEpilogue, LeavesVectorsToTheActivationsThatFollow) {
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

TEST(FuseTokenEpilogue, LeavesWhatNoKernelComputes) {
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

TEST(FuseTokenEpilogue, LeavesSumsToTheNormsThatReadThem) {
  EXPECT_EQ(count_of(fuse_epilogues(tokens("sum", "layer_norm(%1) {eps = 1e-05}"), 0), Op::kAdd), 1);
}

TEST(FuseTokenEpilogue, LeavesWhatIsActivatedFirst) {
  fuse_epilogues(tokens("silu(sum)", "mul_scalar(%1) {value = 2}"), 0);
}

/// Rows in the other order would have to be copied.
TEST(FuseTokenEpilogue, LeavesRowMajorImages) {
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

TEST(FuseTokenEpilogueIn8Bits, AddsTheResidualWhereTheMatmulIsStored) {
  expect_rewrite("fuse-token-epilogue", R"(graph g {
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

TEST(FuseTokenEpilogueIn8Bits, PutsAGateIntoScalesAndBias) {
  expect_rewrite("fuse-token-epilogue", R"(graph g {
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

TEST(FuseTokenEpilogueIn8Bits, LeavesWhatTheEpilogueHasNoPlaceFor) {
  expect_unchanged("fuse-token-epilogue", R"(graph g {
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

TEST(FuseTokenEpilogueIn8Bits, TakesMatmulsWithoutBiasAndSumsThatNormsRead) {
  expect_rewrite("fuse-token-epilogue", R"(graph g {
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

TEST(FuseEpilogueOfBias, AddsTheBiasToTheMatmul) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %x: f32[2, 3, 4]
      param %weight: f32[5, 4]
      param %bias: f32[5]
    - %1: f32[2, 3, 5] = linear(%x, %weight) {tf32 = 1} @ proj
    - %2: f32[2, 3, 5] = add(%bias, %1) @ add
    + %2: f32[2, 3, 5] = linear(%x, %weight, %bias) {tf32 = 1} @ proj
      output y = %2
    })");
}

TEST(FuseEpilogueOfBias, LeavesWhatIsNoBias) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %x: f32[2, 3, 4]
      input %vector: f32[5]
      param %weight: f32[5, 4]
      param %bias: f32[5]
      param %one: f32[1]
      param %each: f32[3, 5]
      %1: f32[2, 3, 5] = linear(%x, %weight, %bias)
      %2: f32[2, 3, 5] = add(%1, %bias)
      %3: f32[2, 3, 5] = linear(%x, %weight) {epilogue = silu(sum)}
      %4: f32[2, 3, 5] = add(%3, %bias)
      %5: f32[2, 3, 5] = linear(%x, %weight)
      %6: f32[2, 3, 5] = add(%5, %vector)
      %7: f32[2, 3, 5] = linear(%x, %weight)
      %8: f32[2, 3, 5] = add(%7, %one)
      %9: f32[2, 3, 5] = linear(%x, %weight)
      %10: f32[2, 3, 5] = add(%9, %each)
      output has_one = %2
      output activated = %4
      output no_weight = %6
      output one = %8
      output of_each_token = %10
    })");
}

TEST(FuseEpilogueOfBias, LeavesAMatmulThatIsReadTwice) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %x: f32[2, 3, 4]
      param %weight: f32[5, 4]
      param %bias: f32[5]
      %1: f32[2, 3, 5] = linear(%x, %weight)
      %2: f32[2, 3, 5] = add(%1, %bias)
      output y = %2
      output product = %1
    })");
}

TEST(FuseEpilogue, TakesEachActivation) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %x: f32[2, 3, 4]
      param %w: f32[5, 4]
      param %b: f32[5]
    - %1: f32[2, 3, 5] = linear(%x, %w, %b) @ ff.net.0.proj
    - %2: f32[2, 3, 5] = gelu_tanh(%1) @ ff
    - %3: f32[2, 3, 5] = linear(%x, %w) @ other
    - %4: f32[2, 3, 5] = gelu_erf(%3)
    - %5: f32[2, 3, 5] = linear(%x, %w, %b) @ embedder.linear_1
    - %6: f32[2, 3, 5] = silu(%5) @ embedder
    - %7: f32[2, 3, 5] = linear(%x, %w, %b) @ net.0
    - %8: f32[2, 3, 5] = relu(%7) @ net.1
    + %2: f32[2, 3, 5] = linear(%x, %w, %b) {epilogue = gelu_tanh(sum)} @ ff.net.0.proj
    + %4: f32[2, 3, 5] = linear(%x, %w) {epilogue = gelu_erf(sum)} @ other
    + %6: f32[2, 3, 5] = linear(%x, %w, %b) {epilogue = silu(sum)} @ embedder.linear_1
    + %8: f32[2, 3, 5] = linear(%x, %w, %b) {epilogue = relu(sum)} @ net.0
      output a = %2
      output b = %4
      output c = %6
      output d = %8
    })",
                 4);
}

TEST(FuseEpilogue, LeavesAMatmulThatIsReadTwice) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[5, 4]
      %1: f32[3, 5] = linear(%x, %w)
      %2: f32[3, 5] = silu(%1)
      output y = %2
      output product = %1
    })");
}

TEST(FuseEpilogue, LeavesOpsAndTreesThatNoKernelComputes) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[5, 4]
      %1: f32[3, 5] = linear(%x, %w) {epilogue = silu(sum)}
      %2: f32[3, 5] = silu(%1)
      %3: f32[3, 5] = linear(%x, %w)
      %4: f32[3, 5] = tanh(%3)
      output y = %2
      output z = %4
    })");
}

TEST(FuseEpilogue, LeavesAMatmulOutsideTheLoopOutside) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[5, 4]
      state %sum: f32[3, 5]
      %1: f32[3, 5] = linear(%x, %w)
      loop 3 %step {
        %2: f32[3, 5] = silu(%1)
        %3: f32[3, 5] = add(%sum, %2)
        next %sum = %3
      }
    })");
}

TEST(FuseEpilogue, LeavesAMatmulOfAStateThatChangesInBetween) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      param %w: f32[4, 4]
      state %x: f32[3, 4]
      %1: f32[3, 4] = linear(%x, %w)
      loop 3 %step {
        %2: f32[3, 4] = relu(%x)
        next %x = %2
      }
      %3: f32[3, 4] = silu(%1)
      output y = %3
    })");
}

TEST(FuseEpilogue, GivesAConvolutionItsResidualAndThenItsActivation) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      input %r: f32[1, 3, 4, 4]
      param %w: f32[3, 2, 1, 1]
      param %b: f32[3]
    - %1: f32[1, 3, 4, 4] = conv2d(%x, %w, %b) @ conv
    - %2: f32[1, 3, 4, 4] = add(%r, %1) @ block
    - %3: f32[1, 3, 4, 4] = relu(%2) @ block
    - %4: f32[1, 3, 4, 4] = conv2d(%x, %w) @ bare
    - %5: f32[1, 3, 4, 4] = add(%4, %r) @ block
    + %3: f32[1, 3, 4, 4] = conv2d(%x, %w, %b, %r) {epilogue = relu(add(e0, sum))} @ conv
    + %5: f32[1, 3, 4, 4] = conv2d(%x, %w, %r) {epilogue = add(sum, e0)} @ bare
      output y = %3
      output z = %5
    })",
                 3);
}

/// The shortcut of a residual block is added to its last convolution.
TEST(FuseEpilogue, PrefersTheLastOfTwoConvolutions) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      param %w: f32[3, 2, 1, 1]
      param %v: f32[3, 2, 1, 1]
      %1: f32[1, 3, 4, 4] = conv2d(%x, %w) @ shortcut
    - %2: f32[1, 3, 4, 4] = conv2d(%x, %v) @ conv
    - %3: f32[1, 3, 4, 4] = add(%1, %2) @ block
    + %3: f32[1, 3, 4, 4] = conv2d(%x, %v, %1) {epilogue = add(e0, sum)} @ conv
      output y = %3
    })");
}

/// A vector [3] is added to each row of 3 pixels, and one of [3, 1, 1] to each channel; neither is a residual.
TEST(FuseEpilogue, LeavesWhatIsBroadcastOverAnImage) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %x: f32[1, 2, 3, 3]
      input %one: f32[1]
      input %row: f32[3]
      input %channels: f32[3, 1, 1]
      input %images: f32[2, 3, 3, 3]
      param %w: f32[3, 2, 1, 1]
      %1: f32[1, 3, 3, 3] = conv2d(%x, %w)
      %2: f32[1, 3, 3, 3] = add(%1, %row)
      %3: f32[1, 3, 3, 3] = conv2d(%x, %w)
      %4: f32[1, 3, 3, 3] = add(%3, %channels)
      %5: f32[1, 3, 3, 3] = conv2d(%x, %w)
      %6: f32[1, 3, 3, 3] = add(%5, %one)
      %7: f32[1, 3, 3, 3] = conv2d(%x, %w)
      %8: f32[2, 3, 3, 3] = add(%7, %images)
      output row = %2
      output channels = %4
      output one = %6
      output images = %8
    })");
}

TEST(FuseEpilogue, LeavesASumAfterAnActivationAndASecondSum) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      input %r: f32[1, 3, 4, 4]
      param %w: f32[3, 2, 1, 1]
      %1: f32[1, 3, 4, 4] = conv2d(%x, %w) {epilogue = silu(sum)}
      %2: f32[1, 3, 4, 4] = add(%r, %1)
      %3: f32[1, 3, 4, 4] = conv2d(%x, %w, %r) {epilogue = add(sum, e0)}
      %4: f32[1, 3, 4, 4] = add(%3, %r)
      %5: f32[1, 3, 4, 4] = conv2d(%x, %w)
      %6: f32[1, 3, 4, 4] = mul(%5, %r)
      output activated = %2
      output twice = %4
      output product = %6
    })");
}

TEST(FuseEpilogue, LeavesWhatFollowsMatmulsOfTwoActivations) {
  expect_unchanged("fuse-epilogue", R"(graph g {
      input %a: f32[2, 3, 4]
      input %b: f32[2, 4, 5]
      input %r: f32[2, 3, 5]
      %1: f32[2, 3, 5] = matmul(%a, %b)
      %2: f32[2, 3, 5] = silu(%1)
      %3: f32[2, 3, 5] = matmul(%a, %b)
      %4: f32[2, 3, 5] = add(%3, %r)
      output y = %2
      output z = %4
    })");
}

TEST(FuseEpilogue, LeavesResidualsOfTokensForLater) {
  expect_unchanged("fuse-epilogue", tokens("sum", "mul_scalar(%1) {value = 2}"), kGeneratingGpu);
}

TEST(FuseEpilogue, GivesAGroupNormItsActivation) {
  expect_rewrite("fuse-epilogue", R"(graph g {
      input %x: f32[1, 2, 4, 4]
    - %1: f32[1, 2, 4, 4] = group_norm(%x) {groups = 2, eps = 1e-5} @ norm
    - %2: f32[1, 2, 4, 4] = silu(%1) @ act
    + %2: f32[1, 2, 4, 4] = group_norm(%x) {groups = 2, eps = 1e-5, epilogue = silu(sum)} @ norm
      output y = %2
    })");
}

}  // namespace
}  // namespace headroom
