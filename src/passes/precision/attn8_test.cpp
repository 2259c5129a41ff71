#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::UnorderedElementsAre;

TEST(Attn8, QuantizesTheStreamsOfQueriesAndKeys) {
  constexpr const char* kModel = R"(graph g {
      input %q: bf16[1, 2, 130, 64]
      input %text: bf16[1, 2, 30, 64]
      input %image: bf16[1, 2, 100, 64]
      input %v: bf16[1, 2, 130, 64]
      %1: bf16[1, 2, 130, 64] = concat(%text, %image) {axis = 2}
    - %2: bf16[1, 2, 130, 64] = attention(%q, %1, %v) {scale = 0.125} @ attn
    + %3: i8[1, 2, 130, 64], %4: f32[1, 2, 130] = quantize(%q) {dtype = i8} @ attn
    + %5: i8[1, 2, 30, 64], %6: f32[1, 2, 30] = quantize(%text) {dtype = i8} @ attn
    + %7: i8[1, 2, 100, 64], %8: f32[1, 2, 100] = quantize(%image) {dtype = i8} @ attn
    + %9: i8[1, 2, 130, 64] = concat(%5, %7) {axis = 2} @ attn
    + %10: f32[1, 2, 130] = concat(%6, %8) {axis = 2} @ attn
    + %11: f8e4m3[1, 2, 64, 256], %12: f32[1, 2, 64] = quantize_values(%v) @ attn
    + %2: bf16[1, 2, 130, 64] = scaled_attention(%3, %4, %9, %10, %11, %12) {scale = 0.125, dtype = bf16} @ attn
      output y = %2
      output k = %1
    })";
  expect_rewrite("attn8", kModel, 1, 0.05, "i8:least=128", kGeneratingGpu);
}

TEST(Attn8, SubtractsTheMeanOfTheKeys) {
  expect_rewrite("attn8", R"(graph g {
      input %q: f16[1, 2, 130, 64]
      input %k: f16[1, 1, 140, 64]
    - %1: f16[1, 2, 130, 64] = attention(%q, %k, %k) {scale = 0.125} @ attn
    + %2: f8e4m3[1, 2, 130, 64], %3: f32[1, 2, 130] = quantize(%q) {dtype = f8e4m3} @ attn
    + %4: f16[1, 1, 64] = mean(%k) {axes = [2]} @ attn
    + %5: f16[1, 1, 1, 64] = reshape(%4) {shape = [1, 1, 1, 64]} @ attn
    + %6: f16[1, 1, 140, 64] = sub(%k, %5) @ attn
    + %7: f8e4m3[1, 1, 140, 64], %8: f32[1, 1, 140] = quantize(%6) {dtype = f8e4m3} @ attn
    + %9: f8e4m3[1, 1, 64, 256], %10: f32[1, 1, 64] = quantize_values(%k) @ attn
    + %1: f16[1, 2, 130, 64] = scaled_attention(%2, %3, %7, %8, %9, %10) {scale = 0.125, dtype = f16} @ attn
      output y = %1
    })",
                 1, 0.1, "e4m3:keys=centered:least=0", kGeneratingGpu);
}

TEST(Attn8, SharesQuantizedOperands) {
  Graph graph = parse_graph(R"(graph g {
    input %q: bf16[1, 1, 8192, 128]
    input %k: bf16[1, 1, 8192, 128]
    %1: bf16[1, 1, 8192, 128] = attention(%q, %k, %k)
    %2: bf16[1, 1, 8192, 128] = attention(%k, %q, %k)
    output y = %1
    output z = %2
  })");
  EXPECT_EQ(run_pass("attn8", graph, kGeneratingGpu).rewrites, 2);
  EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kQuantize, &Node::op), 2);
  EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kQuantizeValues, &Node::op), 1);
}

TEST(Attn8, TakesFewerTokensInHeadsOf128) {
  const auto rewrites = [](std::int64_t tokens, std::int64_t dim, std::string_view argument) {
    Graph graph = parse_graph(fmt::format(R"(graph g {{
      input %q: bf16[1, 2, {0}, {1}]
      %1: bf16[1, 2, {0}, {1}] = attention(%q, %q, %q)
      output y = %1
    }})",
                                          tokens, dim));
    return run_pass("attn8", graph, kGeneratingGpu, argument).rewrites;
  };
  EXPECT_EQ(rewrites(1536, 128, ""), 1);
  EXPECT_EQ(rewrites(1535, 128, ""), 0);
  EXPECT_EQ(rewrites(4096, 64, ""), 1);
  EXPECT_EQ(rewrites(4095, 64, ""), 0);
  for (const std::int64_t dim : {64, 128}) {
    EXPECT_EQ(rewrites(2000, dim, "e4m3:least=2000"), 1);
    EXPECT_EQ(rewrites(2000, dim, "e4m3:least=2001"), 0);
  }
}

TEST(Attn8, SaysWhatItLeaves) {
  Graph graph = parse_graph(R"(graph g {
    input %q: bf16[1, 2, 8192, 64]
    input %text: bf16[1, 2, 77, 64]
    input %wide: bf16[1, 2, 8192, 80]
    input %f: f32[1, 2, 8192, 64]
    input %mask: bool[1, 1, 8192, 8192]
    %1: bf16[1, 2, 8192, 64] = attention(%q, %q, %q, %mask) @ masked
    %2: bf16[1, 2, 8192, 64] = attention(%q, %q, %q) {causal = 1} @ causal
    %3: bf16[1, 2, 8192, 64] = attention(%q, %text, %text) @ cross
    %4: bf16[1, 2, 8192, 80] = attention(%wide, %wide, %wide) @ wide
    %5: f32[1, 2, 8192, 64] = attention(%f, %f, %f) @ float
    %6: bf16[1, 2, 8192, 64], %7: f32[1, 2, 8192] = attention(%q, %q, %q) {logsumexp = 1} @ sums
    output a = %1
    output b = %2
    output c = %3
    output d = %4
    output e = %5
    output f = %6
    output g = %7
  })");
  const std::string before = canonical_text(graph);
  const PassOutcome outcome = run_pass("attn8", graph, kGeneratingGpu);
  EXPECT_EQ(outcome.rewrites, 0);
  EXPECT_EQ(outcome.declined, "no attention of 16 bits in heads of 64 or 128 is long enough and sees every key");
  EXPECT_EQ(canonical_text(graph), before);
  std::vector<std::string> kept;
  for (const PassNote& note : outcome.notes)
    for (const std::string& node : note.nodes) kept.push_back(node + ": " + note.reason);
  EXPECT_THAT(kept, UnorderedElementsAre("masked: it has a bias or a mask of the scores", "causal: it is causal",
                                         "cross: too few to pay for quantizing: 8192 queries, 77 keys",
                                         "wide: heads of 80 and 80, where 64 and 128 are taken",
                                         "float: its operands are f32, not of 16 bits",
                                         "sums: it gives the logarithm of the sum as well"));
}

TEST(Attn8, DeclinesOnOtherDevices) {
  Graph graph = parse_graph(R"(graph g {
    input %q: bf16[1, 2, 8192, 64]
    %1: bf16[1, 2, 8192, 64] = attention(%q, %q, %q)
    output y = %1
  })");
  EXPECT_EQ(run_pass("attn8", graph).declined, "attention in 8 bits runs on NVIDIA GPUs, not on a cpu");
  const Target ada{.device = DeviceKind::kCuda, .compute_capability = 89};
  EXPECT_EQ(run_pass("attn8", graph, ada).declined, "attention in 8 bits is written for sm_90; this GPU is sm_89");
}

TEST(Attn8, RefusesOtherArguments) {
  Graph graph = parse_graph("graph g {\n input %x: f32[2]\n output y = %x\n}");
  for (const char* argument : {"int8", "i8:keys=none", "i8:least=few", "i8:most=3"})
    EXPECT_THROW((void)run_pass("attn8", graph, kGeneratingGpu, argument), Error) << argument;
}

/// The generated kernels that normalize and rotate queries and keys quantize them.
TEST(Attn8, QuantizersJoinTheNormAndTheRotation) {
  Graph graph = parse_graph(R"(graph g {
    input %x: bf16[1, 8192, 384]
    input %cos: f32[8192, 32]
    input %sin: f32[8192, 32]
    param %w: bf16[64]
    param %u: bf16[64]
    %1: bf16[1, 8192, 128] = slice(%x) {axis = 2, start = 0, size = 128}
    %2: bf16[1, 8192, 128] = slice(%x) {axis = 2, start = 128, size = 128}
    %3: bf16[1, 8192, 128] = slice(%x) {axis = 2, start = 256, size = 128}
    %4: bf16[1, 8192, 2, 64] = reshape(%1) {shape = [1, 8192, 2, 64]}
    %5: bf16[1, 2, 8192, 64] = transpose(%4) {perm = [0, 2, 1, 3]}
    %6: bf16[1, 2, 8192, 64] = rms_norm(%5, %w) {eps = 1e-6}
    %7: bf16[1, 2, 8192, 64] = rope(%6, %cos, %sin)
    %8: bf16[1, 8192, 2, 64] = reshape(%2) {shape = [1, 8192, 2, 64]}
    %9: bf16[1, 2, 8192, 64] = transpose(%8) {perm = [0, 2, 1, 3]}
    %10: bf16[1, 2, 8192, 64] = rms_norm(%9, %u) {eps = 1e-6}
    %11: bf16[1, 2, 8192, 64] = rope(%10, %cos, %sin)
    %12: bf16[1, 8192, 2, 64] = reshape(%3) {shape = [1, 8192, 2, 64]}
    %13: bf16[1, 2, 8192, 64] = transpose(%12) {perm = [0, 2, 1, 3]}
    %14: bf16[1, 2, 8192, 64] = attention(%7, %11, %13) {scale = 0.125}
    output y = %14
  })");
  EXPECT_EQ(run_pass("attn8", graph, kGeneratingGpu).rewrites, 1);
  (void)run_pass("fuse-rows", graph, kGeneratingGpu);
  std::vector<Op> left;
  for (const Node& node : graph.nodes())
    if (!is_view(node.op)) left.push_back(node.op);
  EXPECT_THAT(left, UnorderedElementsAre(Op::kFused, Op::kQuantizeValues, Op::kScaledAttention));
}

}  // namespace
}  // namespace headroom
