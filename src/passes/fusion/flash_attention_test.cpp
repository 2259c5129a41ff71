#include <gmock/gmock.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FlashAttention, TakesTheScaleOfTheQueries) {
  expect_rewrite("flash-attention", R"(graph g {
      input %q: f32[2, 3, 5, 4]
      input %k: f32[2, 3, 7, 4]
      input %v: f32[2, 3, 7, 6]
    - %1: f32[2, 3, 5, 4] = mul_scalar(%q) {value = 0.5} @ attn
    - %2: f32[2, 3, 5, 7] = matmul(%1, %k) {transpose_b = 1} @ attn
    - %3: f32[2, 3, 5, 7] = softmax(%2) @ attn
    - %4: f32[2, 3, 5, 6] = matmul(%3, %v) {transpose_b = 0} @ attn
    + %4: f32[2, 3, 5, 6] = attention(%q, %k, %v) {scale = 0.5} @ attn
      output y = %4
    })");
}

TEST(FlashAttention, MultipliesScalesWhereverTheyAre) {
  expect_rewrite("flash-attention", R"(graph g {
      input %q: f32[1, 2, 3, 4]
    - %1: f32[1, 2, 3, 4] = mul_scalar(%q) {value = 0.5}
    - %2: f32[1, 2, 3, 4] = mul_scalar(%q) {value = 3}
    - %3: f32[1, 2, 3, 3] = matmul(%1, %2) {transpose_b = 1}
    - %4: f32[1, 2, 3, 3] = mul_scalar(%3) {value = 0.25}
    - %5: f32[1, 2, 3, 3] = softmax(%4)
    - %6: f32[1, 2, 3, 4] = matmul(%5, %q)
    + %6: f32[1, 2, 3, 4] = attention(%q, %q, %q) {scale = 0.375}
      output y = %6
    })");
}

TEST(FlashAttention, NeedsNoScaleAndKeepsOneThatOthersRead) {
  expect_rewrite("flash-attention", R"(graph g {
      input %q: f32[1, 2, 3, 4]
      %1: f32[1, 2, 3, 4] = mul_scalar(%q) {value = 0.5}
    - %2: f32[1, 2, 3, 3] = matmul(%1, %q) {transpose_b = 1}
    - %3: f32[1, 2, 3, 3] = softmax(%2)
    - %4: f32[1, 2, 3, 4] = matmul(%3, %q)
    + %4: f32[1, 2, 3, 4] = attention(%1, %q, %q) {scale = 1}
      output y = %4
      output scaled = %1
    })");
}

TEST(FlashAttention, TakesABiasOfScaledScores) {
  expect_rewrite("flash-attention", R"(graph g {
      input %q: f32[2, 3, 5, 4]
      input %k: f32[2, 3, 7, 4]
      input %v: f32[2, 3, 7, 6]
      input %bias: f32[5, 7]
    - %1: f32[2, 3, 5, 7] = matmul(%q, %k) {transpose_b = 1} @ attn
    - %2: f32[2, 3, 5, 7] = mul_scalar(%1) {value = 0.5} @ attn
    - %3: f32[2, 3, 5, 7] = add(%bias, %2) @ attn
    - %4: f32[2, 3, 5, 7] = softmax(%3) @ attn
    - %5: f32[2, 3, 5, 6] = matmul(%4, %v) {transpose_b = 0} @ attn
    + %6: f32[1, 1, 5, 7] = reshape(%bias) {shape = [1, 1, 5, 7]} @ attn
    + %5: f32[2, 3, 5, 6] = attention(%q, %k, %v, %6) {scale = 0.5} @ attn
      output y = %5
    })");
}

TEST(FlashAttention, ReadsKeysAndValuesOnceThatHeadsShare) {
  expect_rewrite("flash-attention", R"(graph g {
      input %q: f32[2, 6, 5, 4]
      input %k: f32[2, 3, 7, 4]
      input %v: f32[2, 3, 7, 8]
    - %1: f32[2, 3, 1, 7, 4] = reshape(%k) {shape = [2, 3, 1, 7, 4]} @ attn
    - %2: f32[2, 3, 2, 7, 4] = broadcast(%1) {shape = [2, 3, 2, 7, 4]} @ attn
    - %3: f32[2, 6, 7, 4] = reshape(%2) {shape = [2, 6, 7, 4]} @ attn
    - %4: f32[2, 3, 1, 7, 8] = reshape(%v) {shape = [2, 3, 1, 7, 8]} @ attn
    - %5: f32[2, 3, 2, 7, 8] = broadcast(%4) {shape = [2, 3, 2, 7, 8]} @ attn
    - %6: f32[2, 6, 7, 8] = reshape(%5) {shape = [2, 6, 7, 8]} @ attn
    - %7: f32[2, 6, 5, 7] = matmul(%q, %3) {transpose_b = 1} @ attn
    - %8: f32[2, 6, 5, 7] = softmax(%7) @ attn
    - %9: f32[2, 6, 5, 8] = matmul(%8, %6) {transpose_b = 0} @ attn
    + %9: f32[2, 6, 5, 8] = attention(%q, %k, %v) {scale = 1} @ attn
      output y = %9
    })");
}

TEST(FlashAttention, LeavesHeadsThatAreRepeatedInAnotherOrder) {
  expect_rewrite("flash-attention", R"(graph g {
      input %q: f32[2, 6, 5, 4]
      input %k: f32[2, 3, 7, 4]
      %1: f32[2, 1, 3, 7, 4] = reshape(%k) {shape = [2, 1, 3, 7, 4]} @ attn
      %2: f32[2, 2, 3, 7, 4] = broadcast(%1) {shape = [2, 2, 3, 7, 4]} @ attn
      %3: f32[2, 6, 7, 4] = reshape(%2) {shape = [2, 6, 7, 4]} @ attn
      %4: f32[2, 1, 3, 7, 4] = reshape(%k) {shape = [2, 1, 3, 7, 4]} @ attn
      %5: f32[2, 2, 3, 7, 4] = broadcast(%4) {shape = [2, 2, 3, 7, 4]} @ attn
      %6: f32[2, 6, 7, 4] = reshape(%5) {shape = [2, 6, 7, 4]} @ attn
    - %7: f32[2, 6, 5, 7] = matmul(%q, %3) {transpose_b = 1} @ attn
    - %8: f32[2, 6, 5, 7] = softmax(%7) @ attn
    - %9: f32[2, 6, 5, 4] = matmul(%8, %6) {transpose_b = 0} @ attn
    + %9: f32[2, 6, 5, 4] = attention(%q, %3, %6) {scale = 1} @ attn
      output y = %9
    })");
}

TEST(FlashAttention, TurnsABiasThatLiesChannelsLast) {
  Graph graph = parse_graph(R"(graph g {
      input %q: f32[1, 2, 3, 8]
      input %mask: f32[1, 2, 1, 5]
      input %k: f32[1, 2, 5, 8]
      %0: f32[1, 2, 1, 5] channels_last = reshape(%mask) {shape = [1, 2, 1, 5]}
      %1: f32[1, 2, 3, 5] = matmul(%q, %k) {transpose_b = 1}
      %2: f32[1, 2, 3, 5] = add(%1, %0)
      %3: f32[1, 2, 3, 5] = softmax(%2)
      %4: f32[1, 2, 3, 8] = matmul(%3, %k)
      output y = %4
    })");
  EXPECT_EQ(run_pass("flash-attention", graph).rewrites, 1);
  EXPECT_EQ(graph.type(graph.nodes().back().inputs[3]).layout, Layout::kRowMajor);
}

TEST(FlashAttention, LeavesABiasThatIsScaledToo) {
  expect_unchanged("flash-attention", R"(graph g {
      input %q: f32[1, 2, 3, 4]
      input %bias: f32[1, 1, 3, 3]
      input %one: f32[1, 2, 3, 1]
      %1: f32[1, 2, 3, 3] = matmul(%q, %q) {transpose_b = 1}
      %2: f32[1, 2, 3, 3] = add(%1, %bias)
      %3: f32[1, 2, 3, 3] = mul_scalar(%2) {value = 0.5}
      %4: f32[1, 2, 3, 3] = softmax(%3)
      %5: f32[1, 2, 3, 4] = matmul(%4, %q)
      %6: f32[1, 2, 3, 3] = matmul(%q, %q) {transpose_b = 1}
      %7: f32[1, 2, 3, 3] = add(%6, %one)
      %8: f32[1, 2, 3, 3] = softmax(%7)
      %9: f32[1, 2, 3, 4] = matmul(%8, %q)
      output y = %5
      output z = %9
    })");
}

TEST(FlashAttention, DeclinesWhereScoresOrProbabilitiesAreReadElsewhere) {
  for (const std::string_view also_read : {"%1", "%2"}) {
    const std::string text = fmt::format(R"(graph g {{
      input %q: f32[1, 2, 3, 4]
      %1: f32[1, 2, 3, 3] = matmul(%q, %q) {{transpose_b = 1}}
      %2: f32[1, 2, 3, 3] = softmax(%1)
      %3: f32[1, 2, 3, 4] = matmul(%2, %q)
      output y = %3
      output also = {}
    }})",
                                         also_read);
    expect_unchanged("flash-attention", text);
    Graph graph = parse_graph(text);
    const PassOutcome outcome = run_pass("flash-attention", graph);
    EXPECT_THAT(outcome.declined.value_or(""), testing::HasSubstr("has no matmul, softmax, matmul"));
  }
}

/// The bias of decoders: 0 up to a query's own key, and beyond it the lowest number of f16.
constexpr std::string_view kCausal = R"(graph g {{
      input %q: f32[1, 2, 3, 4]
      %1: f32[3] = constant() {{values = [0, 1, 2], shape = [3], dtype = f32}}
      %2: f32[3, 1] = constant() {{values = [0, 1, {}], shape = [3, 1], dtype = f32}}
      %3: f32[] = constant() {{values = [{}], shape = [], dtype = f32}}
      %4: f32[] = constant() {{values = [0], shape = [], dtype = f32}}
      %5: bool[3, 3] = less_equal(%1, %2)
      %6: f32[3, 3] = select(%5, %4, %3)
      %7: f32[1, 2, 3, 3] = matmul(%q, %q) {{transpose_b = 1}}
      %8: f32[1, 2, 3, 3] = add(%7, %6)
      %9: f32[1, 2, 3, 3] = softmax(%8)
      %10: f32[1, 2, 3, 4] = matmul(%9, %q)
      output y = %10
    }})";

TEST(FlashAttention, TakesACausalBiasAsItsOrder) {
  const auto attention_of = [](int last, int lowest) {
    const Graph original = parse_graph(fmt::format(kCausal, last, lowest));
    Graph graph = original;
    EXPECT_EQ(run_pass("weights-first", graph).rewrites, 0);
    EXPECT_EQ(run_pass("flash-attention", graph).rewrites, 1);
    EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), 1e-12);
    return *std::ranges::find(graph.nodes(), Op::kAttention, &Node::op);
  };
  EXPECT_TRUE(attention_of(2, -65504).attributes[attr::kCausal]);
  EXPECT_EQ(attention_of(2, -65504).inputs.size(), 3U);
  EXPECT_EQ(attention_of(2, -10).inputs.size(), 4U) << "a score may be larger";
  EXPECT_EQ(attention_of(1, -65504).inputs.size(), 4U) << "the last query does not see its own key";
}

TEST(FlashAttention, LeavesMatmulsOfOtherForms) {
  // Keys not transposed, values transposed, tokens without heads.
  expect_unchanged("flash-attention", R"(graph g {
      input %q: f32[1, 2, 4, 4]
      input %x: f32[2, 4, 4]
      %1: f32[1, 2, 4, 4] = matmul(%q, %q)
      %2: f32[1, 2, 4, 4] = softmax(%1)
      %3: f32[1, 2, 4, 4] = matmul(%2, %q)
      %4: f32[1, 2, 4, 4] = matmul(%q, %q) {transpose_b = 1}
      %5: f32[1, 2, 4, 4] = softmax(%4)
      %6: f32[1, 2, 4, 4] = matmul(%5, %q) {transpose_b = 1}
      %7: f32[2, 4, 4] = matmul(%x, %x) {transpose_b = 1}
      %8: f32[2, 4, 4] = softmax(%7)
      %9: f32[2, 4, 4] = matmul(%8, %x)
      output a = %3
      output b = %6
      output c = %9
    })");
}

TEST(FlashAttention, ThenBf16LeavesMasksAndLogarithms) {
  constexpr std::string_view kDiff = R"(graph g {
      input %q: f32[1, 2, 3, 4]
      input %mask: bool[1, 1, 3, 3]
    + %3: bf16[1, 2, 3, 4] = cast(%q) {dtype = bf16}
    - %1: f32[1, 2, 3, 4], %2: f32[1, 2, 3] = attention(%q, %q, %q, %mask) {logsumexp = 1}
    + %4: bf16[1, 2, 3, 4], %2: f32[1, 2, 3] = attention(%3, %3, %3, %mask) {logsumexp = 1}
    + %1: f32[1, 2, 3, 4] = cast(%4) {dtype = f32}
      output y = %1
      output sums = %2
    })";
  Graph graph = graph_before(kDiff);
  EXPECT_EQ(run_pass("bf16", graph).rewrites, 1);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kDiff)));
}

TEST(FlashAttention, ThenBf16ConvertsTheOp) {
  expect_rewrite("bf16", R"(graph g {
      input %q: f32[1, 2, 3, 4]
    + %2: bf16[1, 2, 3, 4] = cast(%q) {dtype = bf16}
    - %1: f32[1, 2, 3, 4] = attention(%q, %q, %q) {scale = 0.5}
    + %3: bf16[1, 2, 3, 4] = attention(%2, %2, %2) {scale = 0.5}
    + %1: f32[1, 2, 3, 4] = cast(%3) {dtype = f32}
      output y = %1
    })",
                 1, 1e-2);
}

}  // namespace
}  // namespace headroom
