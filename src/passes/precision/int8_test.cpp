#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The first, two matmuls that share their input, one over a third of their sum, and the last.
constexpr const char* kInt8Model = R"(graph model {
  input %x: f32[1, 16, 4]
  param %w0: f32[32, 4]
  param %w1: bf16[32, 32]
  param %w2: f32[64, 32]
  param %b2: f32[64]
  param %w3: f32[4, 64]
- %0: f32[32, 32] = cast(%w1) {dtype = f32}
+ %8: i8[32, 32], %9: f32[32] = quantize(%w1) {dtype = i8} @ left
+ %10: i8[64, 32], %11: f32[64] = quantize(%w2) {dtype = i8} @ right
  %1: f32[1, 16, 32] = linear(%x, %w0) {epilogue = sum} @ first
- %2: f32[1, 16, 32] = linear(%1, %0) {epilogue = sum} @ left
- %3: f32[1, 16, 64] = linear(%1, %w2, %b2) {epilogue = gelu_tanh(sum)} @ right
+ %12: i8[1, 16, 32], %13: f32[1, 16] = quantize(%1) {dtype = i8} @ left
+ %2: f32[1, 16, 32] = scaled_linear(%12, %13, %8, %9) {epilogue = sum, dtype = f32} @ left
+ %3: f32[1, 16, 64] = scaled_linear(%12, %13, %10, %11, %b2) {epilogue = gelu_tanh(sum), dtype = f32} @ right
  %4: f32[1, 16, 32] = slice(%3) {axis = 2, start = 0, size = 32}
  %5: f32[1, 16, 32] = add(%2, %4)
  %6: f32[1, 16, 64] = concat(%5, %5) {axis = 2}
  %7: f32[1, 16, 4] = linear(%6, %w3) {epilogue = sum} @ last
  output y = %7
})";

TEST(Int8, QuantizesWhatIsBetweenTheFirstAndTheLastMatmul) {
  Graph graph = graph_before(kInt8Model);
  const PassOutcome outcome = run_pass("int8", graph);
  EXPECT_EQ(outcome.rewrites, 2);
  EXPECT_EQ(outcome.declined, std::nullopt);
  ASSERT_EQ(outcome.notes.size(), 2U);
  EXPECT_THAT(outcome.notes[0].reason, HasSubstr("first layer"));
  EXPECT_THAT(outcome.notes[0].nodes, ElementsAre("first"));
  EXPECT_THAT(outcome.notes[1].reason, HasSubstr("last layer"));
  EXPECT_THAT(outcome.notes[1].nodes, ElementsAre("last"));
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kInt8Model)));
  const Graph original = graph_before(kInt8Model);
  const double error = distance(interpret_on_random(graph, 7), interpret_on_random(original, 7));
  EXPECT_LE(error, 2e-2);
  EXPECT_GE(error, 1e-4);
}

/// Weights that the checkpoint holds in i8 are used directly, also joined ones, whatever they are cast to.
TEST(Int8, TakesStoredWeightsAsTheyAre) {
  constexpr std::string_view kStored = R"(graph model {
  input %x: f32[16, 32]
  param %w: f32[32, 32]
  param %qa: i8[32, 32]
  param %sa: f32[32]
  param %qb: i8[16, 32]
  param %sb: f32[16]
- %0: f32[32, 32] = cast(%qa) {dtype = f32}
- %1: f32[32, 1] = reshape(%sa) {shape = [32, 1]}
- %2: f32[32, 32] = mul(%0, %1)
- %3: f32[16, 32] = cast(%qb) {dtype = f32}
- %4: f32[16, 1] = reshape(%sb) {shape = [16, 1]}
- %5: f32[16, 32] = mul(%3, %4)
- %6: f32[48, 32] = concat(%2, %5) {axis = 0}
+ %6: i8[48, 32] = concat(%qa, %qb) {axis = 0}
+ %11: f32[48] = concat(%sa, %sb) {axis = 0}
  %7: f32[16, 32] = linear(%x, %w) {epilogue = sum}
- %8: f32[16, 48] = linear(%7, %6) {epilogue = sum}
+ %12: i8[16, 32], %13: f32[16] = quantize(%7) {dtype = i8}
+ %8: f32[16, 48] = scaled_linear(%12, %13, %6, %11) {epilogue = sum, dtype = f32}
  %9: f32[16, 32] = slice(%8) {axis = 1, start = 0, size = 32}
  %10: f32[16, 32] = linear(%9, %w) {epilogue = sum}
  output y = %10
})";
  Graph graph = graph_before(kStored);
  EXPECT_EQ(run_pass("int8", graph).rewrites, 1);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kStored)));
}

TEST(Int8, QuantizesWeightsThatAreMadeBehindOtherNodes) {
  Graph graph = parse_graph(R"(graph model {
  input %x: f32[1, 16, 4]
  param %w0: f32[32, 4]
  param %w1: f32[32, 32]
  param %w2: f32[4, 32]
  %1: f32[1, 16, 32] = linear(%x, %w0) @ first
  %2: f32[32, 32] = transpose(%w1) {perm = [1, 0]} @ middle
  %3: f32[1, 16, 32] = linear(%1, %2) @ middle
  %4: f32[1, 16, 4] = linear(%3, %w2) @ last
  output y = %4
})");
  const Graph original = graph;
  EXPECT_EQ(run_pass("int8", graph).rewrites, 1);
  EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kQuantize, &Node::op), 2);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), 3e-2);
}

TEST(Int8, QuantizesWhatACpuMakesOfACheckpointInF16) {
  Graph graph = parse_graph(R"(graph model {
  input %x: f32[1, 16, 4]
  param %w0: f32[32, 4]
  param %w1: f16[32, 32]
  param %w2: f32[4, 32]
  %0: f32[32, 32] = cast(%w1) {dtype = f32}
  %1: f32[1, 16, 32] = linear(%x, %w0) @ first
  %2: f32[1, 16, 32] = linear(%1, %0) @ middle
  %3: f32[1, 16, 4] = linear(%2, %w2) @ last
  output y = %3
})");
  EXPECT_EQ(run_pass("int8", graph).rewrites, 1);
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kQuantize) continue;
    EXPECT_EQ(graph.type(node.inputs[0]).dtype, DType::kF32);
  }
}

TEST(Int8, LeavesConditioningAndSmallMatmulsAlone) {
  Graph graph = parse_graph(R"(graph model {
  input %x: f32[16, 8, 32]
  input %time: f32[16, 32]
  param %w: f32[32, 32]
  param %small: f32[8, 32]
  param %grow: f32[32, 8]
  %0: f32[16, 32] = linear(%time, %w) {epilogue = silu(sum)} @ embed
  %1: f32[16, 32] = linear(%0, %w) {epilogue = sum} @ gate
  %2: f32[16, 1, 32] = reshape(%1) {shape = [16, 1, 32]}
  %3: f32[16, 8, 32] = linear(%x, %w) {epilogue = sum} @ first
  %4: f32[16, 8, 32] = mul(%3, %2)
  %5: f32[16, 8, 8] = linear(%4, %small) {epilogue = sum} @ shrink
  %6: f32[16, 8, 32] = linear(%5, %grow) {epilogue = sum} @ grow
  %7: f32[16, 8, 32] = linear(%6, %w) {epilogue = sum} @ last
  output y = %7
})");
  const PassOutcome outcome = run_pass("int8", graph);
  EXPECT_EQ(outcome.rewrites, 0);
  EXPECT_THAT(outcome.declined.value_or(""), HasSubstr("no product"));
  std::vector<std::string> reasons;
  for (const PassNote& note : outcome.notes)
    for (const std::string& node : note.nodes) reasons.push_back(node + ": " + note.reason.substr(0, 12));
  EXPECT_THAT(reasons, testing::UnorderedElementsAre("embed: conditioning", "gate: conditioning",
                                                     "first: first layer:", "shrink: too small to",
                                                     "grow: too small to", "last: last layer: "));
}

TEST(Int8, DeclinesWhereTheUnitsAreMissing) {
  Graph graph = graph_before(kInt8Model);
  EXPECT_THAT(run_pass("int8", graph, Target{.cpu_isa = CpuIsa::kAvx512}).declined.value_or(""), HasSubstr("VNNI"));
  EXPECT_THAT(run_pass("int8", graph, Target{.device = DeviceKind::kCuda}).declined.value_or(""), HasSubstr("cuda"));
}

TEST(Int8, MakesBf16WhereTheMatmulDid) {
  Graph graph = graph_before(kInt8Model);
  (void)run_pass("bf16", graph);
  EXPECT_EQ(run_pass("int8", graph).rewrites, 2);
  int matmuls = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kScaledLinear) continue;
    ++matmuls;
    EXPECT_EQ(graph.type(node.results[0]).dtype, DType::kBF16);
  }
  EXPECT_EQ(matmuls, 2);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(graph_before(kInt8Model), 7)), 2e-2);
}

}  // namespace
}  // namespace headroom
