#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr Target kHopper{.device = DeviceKind::kCuda, .compute_capability = 90};

/// The first, two matmuls that share their input, one of an odd width, and the last.
constexpr const char* kFp8Model = R"(graph model {
  input %x: f32[1, 128, 16]
  param %w0: f32[32, 16]
  param %w1: bf16[32, 32]
  param %w2: f32[48, 32]
  param %b2: f32[48]
  param %w3: f32[40, 48]
  param %w4: f32[16, 40]
- %0: f32[32, 32] = cast(%w1) {dtype = f32}
+ %10: f8e4m3[32, 32], %11: f32[32] = quantize(%w1) {dtype = f8e4m3} @ left
+ %12: f8e4m3[48, 32], %13: f32[48] = quantize(%w2) {dtype = f8e4m3} @ right
  %1: f32[1, 128, 32] = linear(%x, %w0) {epilogue = sum} @ first
- %2: f32[1, 128, 32] = linear(%1, %0) {epilogue = sum} @ left
- %3: f32[1, 128, 48] = linear(%1, %w2, %b2) {epilogue = gelu_tanh(sum)} @ right
+ %14: f8e4m3[1, 128, 32], %15: f32[1, 128] = quantize(%1) {dtype = f8e4m3} @ left
+ %2: f32[1, 128, 32] = scaled_linear(%14, %15, %10, %11) {epilogue = sum, dtype = f32} @ left
+ %3: f32[1, 128, 48] = scaled_linear(%14, %15, %12, %13, %b2) {epilogue = gelu_tanh(sum), dtype = f32} @ right
  %4: f32[1, 128, 32] = slice(%3) {axis = 2, start = 0, size = 32}
  %5: f32[1, 128, 32] = add(%2, %4)
  %6: f32[1, 128, 16] = slice(%5) {axis = 2, start = 0, size = 16}
  %7: f32[1, 128, 48] = concat(%5, %6) {axis = 2}
  %8: f32[1, 128, 40] = linear(%7, %w3) {epilogue = sum} @ odd
  %9: f32[1, 128, 16] = linear(%8, %w4) {epilogue = sum} @ last
  output y = %9
})";

TEST(Fp8, QuantizesWhatIsBetweenTheFirstAndTheLastMatmul) {
  Graph graph = graph_before(kFp8Model);
  const PassOutcome outcome = run_pass("fp8", graph, kHopper, "exact");
  EXPECT_EQ(outcome.rewrites, 2);
  EXPECT_EQ(outcome.declined, std::nullopt);
  std::vector<std::string> kept;
  for (const PassNote& note : outcome.notes)
    for (const std::string& node : note.nodes) kept.push_back(node + ": " + note.reason);
  EXPECT_THAT(kept, UnorderedElementsAre(HasSubstr("first: first layer"), HasSubstr("last: last layer"),
                                         "odd: 48 to 40 channels, which are no multiples of 16"));
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kFp8Model)));
  const double error = distance(interpret_on_random(graph, 7), interpret_on_random(graph_before(kFp8Model), 7));
  EXPECT_LE(error, 8e-2);
  EXPECT_GE(error, 1e-3) << "this is not FP8";
}

// As in ComfyUI's files: a matrix with one scale, one without, and both merged.
TEST(Fp8, TakesRowsAsTheyAreStored) {
  expect_rewrite("fp8", R"(graph model {
  input %x: f32[1, 128, 32]
  param %w0: f32[32, 32]
  param %a: f8e4m3[32, 32]
  param %a_scale: f32[1]
  param %b: f8e4m3[16, 32]
  param %w4: f32[16, 48]
- %0: f32[32, 32] = cast(%a) {dtype = f32}
- %1: f32[32, 32] = mul(%0, %a_scale)
- %2: f32[16, 32] = cast(%b) {dtype = f32}
- %3: f32[48, 32] = concat(%1, %2) {axis = 0}
+ %10: f32[32] = broadcast(%a_scale) {shape = [32]} @ both
+ %11: f32[16] = constant() {values = [1], shape = [16]} @ both
+ %12: f8e4m3[48, 32] = concat(%a, %b) {axis = 0} @ both
+ %13: f32[48] = concat(%10, %11) {axis = 0} @ both
  %4: f32[1, 128, 32] = linear(%x, %w0) @ first
- %5: f32[1, 128, 48] = linear(%4, %3) @ both
+ %14: f8e4m3[1, 128, 32], %15: f32[1, 128] = quantize(%4) {dtype = f8e4m3} @ both
+ %5: f32[1, 128, 48] = scaled_linear(%14, %15, %12, %13) {dtype = f32} @ both
  %6: f32[1, 128, 16] = linear(%5, %w4) @ last
  output y = %6
})",
                 1, 8e-2, "exact", kHopper);
}

/// Tensor cores take weights in f8e5m2 and activations in f8e4m3. Matrices of both dtypes are not one matmul's: their
/// constants are dead code.
TEST(Fp8, TakesRowsInF8E5M2) {
  expect_rewrite("fp8", R"(graph model {
  input %x: f32[1, 128, 32]
  param %w0: f32[32, 32]
  param %a: f8e5m2[32, 32]
  param %a_scale: f32[1]
  param %b: f8e5m2[32, 32]
  param %c: f8e4m3[32, 32]
  param %w4: f32[16, 64]
- %0: f32[32, 32] = cast(%a) {dtype = f32}
- %1: f32[32, 32] = mul(%0, %a_scale)
  %2: f32[32, 32] = cast(%b) {dtype = f32}
  %3: f32[32, 32] = cast(%c) {dtype = f32}
  %4: f32[64, 32] = concat(%2, %3) {axis = 0}
+ %10: f32[32] = broadcast(%a_scale) {shape = [32]} @ one
+ %17: f32[32] = constant() {values = [1], shape = [32]} @ both
+ %18: f32[32] = constant() {values = [1], shape = [32]} @ both
+ %11: f8e4m3[64, 32], %12: f32[64] = quantize(%4) {dtype = f8e4m3} @ both
  %5: f32[1, 128, 32] = linear(%x, %w0) @ first
- %6: f32[1, 128, 32] = linear(%5, %1) @ one
- %7: f32[1, 128, 64] = linear(%6, %4) @ both
+ %13: f8e4m3[1, 128, 32], %14: f32[1, 128] = quantize(%5) {dtype = f8e4m3} @ one
+ %6: f32[1, 128, 32] = scaled_linear(%13, %14, %a, %10) {dtype = f32} @ one
+ %15: f8e4m3[1, 128, 32], %16: f32[1, 128] = quantize(%6) {dtype = f8e4m3} @ both
+ %7: f32[1, 128, 64] = scaled_linear(%15, %16, %11, %12) {dtype = f32} @ both
  %8: f32[1, 128, 16] = linear(%7, %w4) @ last
  output y = %8
})",
                 2, 8e-2, "exact", kHopper);
}

/// One scale of the file for all rows of x, of joined matrices the largest; `c` has none.
constexpr const char* kFileScales = R"(graph model {
  input %x: f32[1, 128, 32]
  param %w0: f32[32, 32]
  param %a.weight: f8e4m3[32, 32]
  param %a.input_scale: f32[1]
  param %b.weight: f8e4m3[16, 32]
  param %b.input_scale: f32[1]
  param %c.weight: f8e4m3[48, 48]
  param %w4: f32[16, 48]
- %0: f32[32, 32] = cast(%a.weight) {dtype = f32}
- %1: f32[16, 32] = cast(%b.weight) {dtype = f32}
- %2: f32[48, 32] = concat(%0, %1) {axis = 0}
- %3: f32[48, 48] = cast(%c.weight) {dtype = f32}
+ %10: f32[32] = constant() {values = [1], shape = [32]} @ both
+ %11: f32[16] = constant() {values = [1], shape = [16]} @ both
+ %12: f8e4m3[48, 32] = concat(%a.weight, %b.weight) {axis = 0} @ both
+ %13: f32[48] = concat(%10, %11) {axis = 0} @ both
+ %14: f32[1] = max(%a.input_scale, %b.input_scale) @ both
+ %15: f32[1] = constant() {values = [1], shape = [1]} @ both
+ %16: f32[1] = div(%15, %14) @ both
+ %17: f32[1, 128] = broadcast(%14) {shape = [1, 128]} @ both
+ %18: f32[48] = constant() {values = [1], shape = [48]} @ own
  %4: f32[1, 128, 32] = linear(%x, %w0) @ first
- %5: f32[1, 128, 48] = linear(%4, %2) @ both
- %6: f32[1, 128, 48] = linear(%5, %3) @ own
+ %19: f32[1, 128, 32] = mul(%4, %16) @ both
+ %20: f8e4m3[1, 128, 32] = cast(%19) {dtype = f8e4m3} @ both
+ %5: f32[1, 128, 48] = scaled_linear(%20, %17, %12, %13) {dtype = f32} @ both
+ %21: f8e4m3[1, 128, 48], %22: f32[1, 128] = quantize(%5) {dtype = f8e4m3} @ own
+ %6: f32[1, 128, 48] = scaled_linear(%21, %22, %c.weight, %18) {dtype = f32} @ own
  %7: f32[1, 128, 16] = linear(%6, %w4) @ last
  output y = %7
})";

TEST(Fp8, ScalesActivationsByTheFileIfAsked) {
  expect_rewrite("fp8", kFileScales, 2, 8e-2, "exact:activations=file", kHopper);
  Graph own = graph_before(kFileScales);
  EXPECT_EQ(run_pass("fp8", own, kHopper, "exact:activations=row").rewrites, 2);
  EXPECT_EQ(std::ranges::count(own.nodes(), Op::kQuantize, &Node::op), 2);
  EXPECT_EQ(std::ranges::count(own.nodes(), Op::kDiv, &Node::op), 0);
}

TEST(Fp8, TellsThatNoFileScalesActivations) {
  Graph graph = graph_before(kFp8Model);
  const PassOutcome outcome = run_pass("fp8", graph, kHopper, "fast:activations=file");
  EXPECT_EQ(outcome.rewrites, 2);
  EXPECT_EQ(outcome.notes.back().reason, "activations=file: no weight stored in FP8 has an input_scale");
}

/// Biases have the dtype of the result, as the epilogue of a matmul requires.
TEST(Fp8, MakesWhatTheMatmulMade) {
  for (const auto& [pass, dtype] : {std::pair("bf16", DType::kBF16), std::pair("fp16", DType::kF16)}) {
    Graph graph = graph_before(kFp8Model);
    (void)run_pass(pass, graph, kHopper);
    EXPECT_EQ(run_pass("fp8", graph, kHopper).rewrites, 2);
    int matmuls = 0;
    for (const Node& node : graph.nodes()) {
      if (node.op != Op::kScaledLinear) continue;
      ++matmuls;
      EXPECT_EQ(graph.type(node.results[0]).dtype, dtype);
      if (node.inputs.size() > 4) {
        EXPECT_EQ(graph.type(node.inputs[4]).dtype, dtype);
      }
    }
    EXPECT_EQ(matmuls, 2);
    EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(graph_before(kFp8Model), 7)), 8e-2);
  }
}

/// With a small number of rows the matmul is bound by reading the weight: a large weight is worth it, a small one is
/// not.
TEST(Fp8, QuantizesRowsTogetherWithAllOfThemWhereTheyLieTogether) {
  const auto quantizers = [](std::int64_t batch, std::int64_t rows) {
    Graph graph = parse_graph(fmt::format(R"(graph model {{
      input %x: f32[{0}, {1}, 32]
      param %w0: f32[64, 32]
      param %w1: f32[64, 64]
      param %w2: f32[64, 64]
      param %w3: f32[32, 64]
      %0: f32[{0}, {1}, 64] = linear(%x, %w0) @ first
      %1: f32[{0}, 128, 64] = slice(%0) {{axis = 1, start = {2}, size = 128}} @ part
      %2: f32[{0}, 128, 64] = linear(%1, %w1) @ q
      %3: f32[{0}, {1}, 64] = linear(%0, %w2) @ k
      %4: f32[{0}, 128, {1}] = matmul(%2, %3) {{transpose_b = 1}} @ scores
      %5: f32[{0}, 128, 64] = matmul(%4, %3) @ context
      %6: f32[{0}, 128, 32] = linear(%5, %w3) @ last
      output y = %6
    }})",
                                          batch, rows, rows - 128));
    const Graph before = graph;
    EXPECT_EQ(run_pass("fp8", graph, kHopper).rewrites, 2);
    EXPECT_LE(distance(interpret_on_random(graph, 3), interpret_on_random(before, 3)), 0.1);
    return std::ranges::count_if(graph.nodes(), [&](const Node& node) {
      return node.op == Op::kQuantize && graph.type(node.inputs[0]).shape.rank() == 3;
    });
  };
  EXPECT_EQ(quantizers(1, 192), 1);
  EXPECT_EQ(quantizers(2, 192), 2) << "a part of each sample would have to be copied";
}

TEST(Fp8, LeavesFewRowsOfASmallWeight) {
  Graph graph = parse_graph(R"(graph model {
  input %x: f32[1, 77, 16]
  param %w0: f32[4096, 16]
  param %w1: f32[2048, 4096]
  param %w2: f32[2048, 2048]
  param %w3: f32[16, 2048]
  %0: f32[1, 77, 4096] = linear(%x, %w0) {epilogue = sum} @ first
  %1: f32[1, 77, 2048] = linear(%0, %w1) {epilogue = sum} @ large
  %2: f32[1, 77, 2048] = linear(%1, %w2) {epilogue = sum} @ small
  %3: f32[1, 77, 16] = linear(%2, %w3) {epilogue = sum} @ last
  output y = %3
})");
  const PassOutcome outcome = run_pass("fp8", graph, kHopper);
  EXPECT_EQ(outcome.rewrites, 1);
  std::vector<std::string> kept;
  for (const PassNote& note : outcome.notes)
    for (const std::string& node : note.nodes) kept.push_back(node + ": " + note.reason);
  EXPECT_THAT(kept, testing::Contains("small: too few rows for so small a weight: 77, 2048 to 2048 channels"));
}

/// A modulation has one row per sample, and scales every token alike.
TEST(Fp8, LeavesModulationsAlone) {
  Graph graph = parse_graph(R"(graph model {
  input %x: f32[16, 8, 32]
  input %time: f32[16, 32]
  param %w: f32[32, 32]
  %0: f32[16, 32] = linear(%time, %w) {epilogue = silu(sum)} @ embed
  %1: f32[16, 32] = linear(%0, %w) {epilogue = sum} @ modulation
  %2: f32[16, 1, 32] = reshape(%1) {shape = [16, 1, 32]}
  %3: f32[16, 8, 32] = linear(%x, %w) {epilogue = sum} @ first
  %4: f32[16, 8, 32] = norm_modulate(%3, %2, %2) {eps = 1e-06}
  %5: f32[16, 8, 32] = linear(%4, %w) {epilogue = sum} @ last
  output y = %5
})");
  const PassOutcome outcome = run_pass("fp8", graph, kHopper);
  EXPECT_EQ(outcome.rewrites, 0);
  EXPECT_THAT(outcome.declined.value_or(""), HasSubstr("no product"));
  ASSERT_FALSE(outcome.notes.empty());
  EXPECT_THAT(outcome.notes[0].reason, HasSubstr("conditioning"));
  EXPECT_THAT(outcome.notes[0].nodes, ElementsAre("embed", "modulation"));
}

std::vector<std::string> fast_modules(const Graph& graph) {
  std::vector<std::string> paths;
  for (const Node& node : graph.nodes())
    if (node.op == Op::kScaledLinear && node.attributes[attr::kFastSums]) paths.push_back(node.path);
  return paths;
}

TEST(Fp8, SumsFastWhereItIsAsked) {
  const auto modules = [](std::string_view argument) {
    Graph graph = graph_before(kFp8Model);
    EXPECT_EQ(run_pass("fp8", graph, kHopper, argument).rewrites, 2);
    return fast_modules(graph);
  };
  EXPECT_THAT(modules(""), ElementsAre("left", "right"));
  EXPECT_THAT(modules("fast"), ElementsAre("left", "right"));
  EXPECT_THAT(modules("exact"), testing::IsEmpty());
  EXPECT_THAT(modules("fast:modules=^r"), ElementsAre("right"));
  EXPECT_THAT(modules("exact:modules=^r"), ElementsAre("left"));
  Graph graph = graph_before(kFp8Model);
  const PassOutcome outcome = run_pass("fp8", graph, kHopper, "fast:modules=middle");
  EXPECT_THAT(fast_modules(graph), testing::IsEmpty());
  EXPECT_EQ(outcome.notes.back().reason, "modules= matches the path of no product in FP8");
}

TEST(Fp8, RefusesOtherArguments) {
  for (const char* argument : {"precise", "exact:module=x", "exact:modules=(", "exact:modules",
                               "exact:activations=", "fast:activations=tensor"}) {
    Graph graph = graph_before(kFp8Model);
    try {
      static_cast<void>(run_pass("fp8", graph, kHopper, argument));
      ADD_FAILURE() << argument << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    }
  }
}

/// A matmul over 4096 numbers that are never negative, and one over numbers of both signs, between two others.
constexpr const char* kPositiveModel = R"(graph model {
  input %x: bf16[1, 128, 4096]
  param %w: bf16[4096, 4096]
  %0: bf16[1, 128, 4096] = linear(%x, %w) {epilogue = relu(sum)} @ first
  %1: bf16[1, 128, 4096] = linear(%0, %w) {epilogue = sum} @ positive
  %2: bf16[1, 128, 4096] = linear(%1, %w) {epilogue = sum} @ signed
  %3: bf16[1, 128, 4096] = linear(%2, %w) {epilogue = sum} @ last
  output y = %3
})";

TEST(Fp8, NamesMatmulsThatLoseByFastSums) {
  Graph graph = parse_graph(kPositiveModel);
  const PassOutcome outcome = run_pass("fp8", graph, kHopper);
  std::vector<std::string> notes_of_nodes;
  for (const PassNote& note : outcome.notes)
    if (note.kind == NoteKind::kLossy)
      for (const std::string& node : note.nodes) notes_of_nodes.push_back(node + ": " + note.reason);
  EXPECT_THAT(notes_of_nodes, ElementsAre(testing::AllOf(HasSubstr("positive: inputs are never negative"),
                                                         HasSubstr("4096 positive products"))));
  Graph exact = parse_graph(kPositiveModel);
  for (const PassNote& note : run_pass("fp8", exact, kHopper, "exact").notes)
    EXPECT_EQ(note.kind, NoteKind::kKept) << note.reason;
}

TEST(Fp8, DeclinesWhereTheUnitsAreMissing) {
  Graph graph = graph_before(kFp8Model);
  EXPECT_EQ(run_pass("fp8", graph).declined, "FP8 products run on NVIDIA GPUs, not on a cpu");
  const Target ampere{.device = DeviceKind::kCuda, .compute_capability = 86};
  EXPECT_EQ(run_pass("fp8", graph, ampere).declined, "FP8 tensor cores came with sm_89; this GPU is sm_86");
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_before(kFp8Model)));
}

}  // namespace
}  // namespace headroom
