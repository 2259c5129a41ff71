#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// Runs the pass; expects that many fused nodes and the same results, up to roundings that fusion avoids.
Graph fuse_rows(std::string_view text, int fused, double tolerance = 1e-12, const Target& target = kGeneratingGpu) {
  const Graph original = parse_graph(text);
  Graph graph = original;
  EXPECT_EQ(run_pass("fuse-rows", graph, target).rewrites, fused);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), tolerance);
  return graph;
}

TEST(FuseRows, PutsWhatGoesAlongRowsIntoOneBody) {
  const Graph graph = fuse_rows(R"(graph g {
  input %r: bf16[2, 3, 16]
  input %x: bf16[2, 3, 16]
  input %gate: bf16[2, 1, 16]
  input %scale: bf16[2, 1, 16]
  input %shift: bf16[2, 1, 16]
  %0: bf16[2, 3, 16] = mul(%gate, %x)
  %1: bf16[2, 3, 16] = add(%r, %0)
  %2: bf16[2, 3, 16] = layer_norm(%1) {eps = 1e-06} @ norm
  %3: bf16[2, 1, 16] = add_scalar(%scale) {value = 1}
  %4: bf16[2, 3, 16] = mul(%2, %3)
  %5: bf16[2, 3, 16] = add(%4, %shift)
  %6: f8e4m3[2, 3, 16], %7: f32[2, 3] = quantize(%5) {dtype = f8e4m3} @ to_q
  output sum = %1
  output q = %6
  output s = %7
})",
                                1, 2e-2);
  ASSERT_EQ(graph.nodes().size(), 1U);
  EXPECT_EQ(graph.nodes()[0].path, "norm");
  EXPECT_EQ(graph.nodes()[0].results.size(), 3U);
}

/// Queries and keys are rotated with one table; the values next to them have other rows.
TEST(FuseRows, JoinsWhatGoesOverTheSameRowsOfOneOperand) {
  const Graph graph = fuse_rows(R"(graph g {
  input %q: f32[1, 2, 3, 8]
  input %k: f32[1, 2, 3, 8]
  input %v: f32[1, 2, 5, 8]
  input %cos: f32[3, 4]
  input %sin: f32[3, 4]
  param %wq: f32[8]
  param %wk: f32[8]
  %0: f32[1, 2, 3, 8] = rms_norm(%q, %wq) {eps = 1e-06} @ norm_q
  %1: f32[1, 2, 3, 8] = rope(%0, %cos, %sin) @ attn
  %2: f32[1, 2, 3, 8] = rms_norm(%k, %wk) {eps = 1e-06} @ norm_k
  %3: f32[1, 2, 3, 8] = rope(%2, %cos, %sin) @ attn
  %4: f32[1, 2, 5, 8] = rms_norm(%v, %wk) {eps = 1e-06} @ norm_v
  %5: f32[1, 2, 5, 8] = mul_scalar(%4) {value = 2} @ norm_v
  output q = %1
  output k = %3
  output v = %5
})",
                                2);
  EXPECT_EQ(graph.nodes().size(), 2U);
}

/// The second reads the result of a matmul of the first.
TEST(FuseRows, DoesNotJoinReadersOfOneOperandThatWaitForEachOther) {
  const Graph graph = fuse_rows(R"(graph g {
  input %x: f32[4, 8]
  input %scale: f32[4, 8]
  param %w: f32[8, 8]
  %0: f32[4, 8] = mul(%x, %scale)
  %1: f32[4, 8] = silu(%0)
  %2: f32[4, 8] = linear(%1, %w)
  %3: f32[4, 8] = mul(%2, %scale)
  %4: f32[4, 8] = silu(%3)
  output y = %4
})",
                                2);
  EXPECT_EQ(graph.nodes().size(), 3U);
}

TEST(FuseRows, TakesInTheReshapeThatBroadcastsASumToItsRow) {
  const Graph graph = fuse_rows(R"(graph g {
  input %x: bf16[4, 16]
  %0: f32[4, 16] = cast(%x) {dtype = f32}
  %1: f32[4] = amax(%0) {axes = [1]}
  %2: f32[4, 1] = reshape(%1) {shape = [4, 1]}
  %3: f32[4, 16] = sub(%0, %2)
  %4: f32[4, 16] = exp(%3)
  %5: f32[4] = sum(%4) {axes = [1]}
  %6: f32[4, 1] = reshape(%5) {shape = [4, 1]}
  %7: f32[4, 1] = log(%6)
  %8: f32[4, 1] = add(%7, %2)
  output y = %8
})",
                                1);
  EXPECT_EQ(graph.nodes().size(), 1U);
}

TEST(FuseRows, StretchesImagesOnTheWay) {
  const Graph graph = fuse_rows(R"(graph g {
  input %x: bf16[1, 4, 3, 5]
  input %skip: bf16[1, 4, 6, 10]
  %0: bf16[1, 4, 6, 10] = resize2d(%x) {size = [6, 10]}
  %1: bf16[1, 4, 6, 10] = add(%0, %skip)
  %2: bf16[1, 4, 6, 10] = silu(%1)
  output y = %2
})",
                                1, 1e-2);
  EXPECT_EQ(graph.nodes().size(), 1U);
  // An upsampled value is computed once and stored, not computed for each pixel.
  EXPECT_EQ(fuse_rows(R"(graph g {
  input %x: f32[1, 4, 3, 5]
  input %skip: f32[1, 4, 6, 10]
  %0: f32[1, 4, 3, 5] = silu(%x)
  %1: f32[1, 4, 6, 10] = resize2d(%0) {size = [6, 10]}
  %2: f32[1, 4, 6, 10] = add(%1, %skip)
  output y = %2
})",
                      1)
                .nodes()
                .size(),
            2U);
  fuse_rows(R"(graph g {
  input %x: f32[1, 4, 256, 256]
  %0: f32[1, 4, 512, 512] = resize2d(%x) {size = [512, 512]}
  output y = %0
})",
            1);
}

TEST(FuseRows, GathersAnElementForEachRow) {
  const Graph graph = fuse_rows(R"(graph g {
  input %x: bf16[4, 16]
  input %table: bf16[1]
  input %zero: f32[4, 1]
  %0: f32[4, 16] = cast(%x) {dtype = f32}
  %1: f32[4] = amax(%0) {axes = [1]}
  %2: f32[4, 1] = reshape(%1) {shape = [4, 1]}
  %3: i32[4, 1] = cast(%zero) {dtype = i32}
  %4: i32[4, 1] = mul_scalar(%3) {value = 0}
  %5: bf16[4, 1] = gather(%table, %4)
  %6: f32[4, 1] = cast(%5) {dtype = f32}
  %7: f32[4, 1] = sub(%2, %6)
  output y = %7
})",
                                1);
  EXPECT_EQ(graph.nodes().size(), 3U);
}

TEST(FuseRows, LeavesWhatStandsAlone) {
  fuse_rows(R"(graph g {
  input %x: f32[2, 16]
  param %w: f32[16, 16]
  %0: f32[2, 16] = relu(%x)
  %1: f32[2, 16] = linear(%0, %w)
  %2: f32[2, 16] = silu(%1)
  output y = %2
})",
            0);
}

TEST(FuseRows, DoesNotReachAroundAMatmul) {
  // The matmul reads the sum, and the last sum reads the matmul: two ops, not one.
  const Graph graph = fuse_rows(R"(graph g {
  input %x: f32[2, 16]
  param %w: f32[16, 16]
  %0: f32[2, 16] = silu(%x)
  %1: f32[2, 16] = add(%0, %x)
  %2: f32[2, 16] = linear(%1, %w)
  %3: f32[2, 16] = gelu_erf(%2)
  %4: f32[2, 16] = add(%1, %3)
  output y = %4
})",
                                2);
  EXPECT_EQ(graph.nodes().size(), 3U);
}

TEST(FuseRows, NotesWhyTwoWereNotJoined) {
  Graph graph = parse_graph(R"(graph g {
  input %x: f32[4, 16]
  %0: f32[4, 16] = silu(%x) @ a
  %1: f32[16] = sum(%0) {axes = [0]} @ b
  output y = %1
})");
  const PassOutcome outcome = run_pass("fuse-rows", graph, kGeneratingGpu);
  EXPECT_EQ(outcome.rewrites, 0);
  ASSERT_EQ(outcome.notes.size(), 1U);
  EXPECT_THAT(outcome.notes[0].reason, testing::HasSubstr("other axes"));
  EXPECT_THAT(outcome.notes[0].nodes, testing::ElementsAre("b"));
}

TEST(FuseRows, KeepsLoopsApartFromWhatStandsAroundThem) {
  const Graph graph = fuse_rows(R"(graph g {
  state %s: f32[2, 16]
  input %x: f32[2, 16]
  %0: f32[2, 16] = exp(%x)
  loop 3 %i {
    %1: f32[2, 16] = mul(%s, %0)
    %2: f32[2, 16] = add(%1, %x)
    %3: f32[2, 16] = tanh(%2)
    next %s = %3
    yield %4: f32[2, 16] = %3
  }
  %5: f32[2, 16] = relu(%4)
  output y = %5
})",
                                1);
  EXPECT_EQ(graph.nodes().size(), 3U);
}

TEST(FuseRows, NeedsACompilerOnAGpu) {
  Graph graph = parse_graph(R"(graph g {
  input %x: f32[4]
  %0: f32[4] = exp(%x)
  %1: f32[4] = relu(%0)
  output y = %1
})");
  EXPECT_EQ(run_pass("fuse-rows", graph, {.device = DeviceKind::kCuda, .compute_capability = 90}).rewrites, 0);
}

TEST(FuseRows, LeavesWhatNothingReads) {
  fuse_rows(R"(graph g {
  input %x: f32[4]
  %0: f32[4] = exp(%x)
  %1: f32[4] = relu(%0)
  output y = %x
})",
            0);
}

/// Three of seven reads and writes remain; for a sum and a norm, four of five.
TEST(FuseRows, JoinsOnACpuWhatThenReadsAndWritesHalfAsMuch) {
  constexpr Target kCpu{.device = DeviceKind::kCpu};
  const Graph graph = fuse_rows(R"(graph g {
  input %scores: f32[2, 8, 8]
  input %mask: f32[2, 8, 8]
  input %x: f32[2, 8, 8]
  input %r: f32[2, 8, 8]
  %0: f32[2, 8, 8] = mul_scalar(%scores) {value = 0.125}
  %1: f32[2, 8, 8] = add(%0, %mask)
  %2: f32[2, 8, 8] = softmax(%1)
  %3: f32[2, 8, 8] = add(%x, %r)
  %4: f32[2, 8, 8] = layer_norm(%3) {eps = 1e-06} @ norm
  output p = %2
  output sum = %3
  output y = %4
})",
                                1, 1e-12, kCpu);
  std::vector<Op> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op);
  EXPECT_THAT(ops, testing::UnorderedElementsAre(Op::kFused, Op::kAdd, Op::kLayerNorm));
}

TEST(FuseRows, RepeatsPixelsOnACpuWhereTheirChannelsLieTogether) {
  constexpr Target kCpu{.device = DeviceKind::kCpu};
  const Graph graph = fuse_rows(R"(graph g {
  input %x: f32[1, 3, 5, 4]
  input %skip: f32[1, 6, 10, 4]
  %0: f32[1, 4, 3, 5] channels_last = transpose(%x) {perm = [0, 3, 1, 2]}
  %1: f32[1, 4, 6, 10] channels_last = transpose(%skip) {perm = [0, 3, 1, 2]}
  %2: f32[1, 4, 6, 10] channels_last = resize2d(%0) {size = [6, 10]}
  %3: f32[1, 4, 6, 10] channels_last = add(%2, %1)
  %4: f32[1, 6, 10, 4] = transpose(%3) {perm = [0, 2, 3, 1]}
  output y = %4
})",
                                1, 1e-12, kCpu);
  EXPECT_EQ(graph.nodes().size(), 4U);
  fuse_rows(R"(graph g {
  input %x: f32[1, 4, 3, 5]
  input %skip: f32[1, 4, 6, 10]
  %0: f32[1, 4, 6, 10] = resize2d(%x) {size = [6, 10]}
  %1: f32[1, 4, 6, 10] = add(%0, %skip)
  output y = %1
})",
            0, 1e-12, kCpu);
}

TEST(FuseRows, GivesACpuBytesInVectors) {
  constexpr Target kCpu{.device = DeviceKind::kCpu};
  const Graph graph = fuse_rows(R"(graph g {
  input %x: f32[2, 8]
  %0: u8[2, 8] = cast(%x) {dtype = u8}
  output y = %0
})",
                                1, 0, kCpu);
  ASSERT_EQ(graph.nodes().size(), 1U);
  EXPECT_EQ(graph.nodes()[0].op, Op::kFused);
}

}  // namespace
}  // namespace headroom
