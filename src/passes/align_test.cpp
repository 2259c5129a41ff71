#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(AlignPass, FillsUpChannelsAndLeavesThemSoBetweenConvolutions) {
  // f16: vectors of 8. Three and six channels become eight.
  expect_rewrite("align", R"(graph g {
      input %x: f16[1, 3, 4, 4]
      param %w: f16[6, 3, 3, 3]
      param %b: f16[6]
      param %gain: f16[6]
      param %shift: f16[6]
      param %v: f16[8, 6, 1, 1]
    + %4: f16[6, 8, 3, 3] = pad(%w) {before = [0, 0, 0, 0], after = [0, 5, 0, 0]} @ a
    + %5: f16[8, 8, 3, 3] = pad(%4) {before = [0, 0, 0, 0], after = [2, 0, 0, 0]} @ a
    + %6: f16[8] = pad(%b) {before = [0], after = [2]} @ a
    + %7: f16[8] = pad(%gain) {before = [0], after = [2]} @ n
    + %8: f16[8] = pad(%shift) {before = [0], after = [2]} @ n
    + %9: f16[8, 8, 1, 1] = pad(%v) {before = [0, 0, 0, 0], after = [0, 2, 0, 0]} @ c
    + %10: f16[1, 8, 4, 4] = pad(%x) {before = [0, 0, 0, 0], after = [0, 5, 0, 0]} @ a
    - %0: f16[1, 6, 4, 4] = conv2d(%x, %w, %b) {padding = [1, 1, 1, 1]} @ a
    + %0: f16[1, 8, 4, 4] = conv2d(%10, %5, %6) {padding = [1, 1, 1, 1]} @ a
    - %1: f16[1, 6, 4, 4] = group_norm(%0, %gain, %shift) {groups = 2, eps = 1e-6} @ n
    + %1: f16[1, 8, 4, 4] = group_norm(%0, %7, %8) {groups = 2, eps = 1e-6, channels = 6} @ n
    - %2: f16[1, 6, 4, 4] = silu(%1) @ n
    + %2: f16[1, 8, 4, 4] = silu(%1) @ n
    - %3: f16[1, 8, 4, 4] = conv2d(%2, %v) @ c
    + %3: f16[1, 8, 4, 4] = conv2d(%2, %9) @ c
      output y = %3
    })",
                 4);
}

TEST(AlignPass, LeavesANormWhoseEpilogueMakesSomethingOfZeros) {
  const auto rewrites = [](std::string_view epilogue) {
    Graph graph = parse_graph(fmt::format(R"(graph g {{
      input %x: f16[1, 9, 4, 4]
      param %w: f16[9, 9, 1, 1]
      %0: f16[1, 9, 4, 4] = conv2d(%x, %w)
      %1: f16[1, 9, 4, 4] = group_norm(%0) {{groups = 3, eps = 1e-6, epilogue = {}}}
      output y = %1
    }})",
                                          epilogue));
    const Graph before = graph;
    const int made = run_pass("align", graph).rewrites;
    EXPECT_LT(distance(interpret_on_random(graph, 3), interpret_on_random(before, 3)), 1e-6);
    return made;
  };
  EXPECT_EQ(rewrites("silu(sum)"), 2);
  EXPECT_EQ(rewrites("exp(sum)"), 1);
}

TEST(AlignPass, FillsUpTheOperandsOfAnEpilogue) {
  expect_rewrite("align", R"(graph g {
      input %x: f16[1, 8, 4, 4]
      input %r: f16[1, 6, 4, 4]
      param %w: f16[6, 8, 1, 1]
    + %1: f16[8, 8, 1, 1] = pad(%w) {before = [0, 0, 0, 0], after = [2, 0, 0, 0]} @ a
    + %2: f16[1, 8, 4, 4] = pad(%r) {before = [0, 0, 0, 0], after = [0, 2, 0, 0]} @ a
    - %0: f16[1, 6, 4, 4] = conv2d(%x, %w, %r) {epilogue = silu(add(sum, e0))} @ a
    + %3: f16[1, 8, 4, 4] = conv2d(%x, %1, %2) {epilogue = silu(add(sum, e0))} @ a
    + %0: f16[1, 6, 4, 4] = slice(%3) {axis = 1, start = 0, size = 6} @ a
      output y = %0
    })",
                 1);
}

TEST(AlignPass, FillsUpTheOperandsOfATransposedConvolutionsEpilogue) {
  expect_rewrite("align", R"(graph g {
      input %x: f16[1, 8, 4, 4]
      input %r: f16[1, 6, 4, 4]
      param %w: f16[8, 6, 1, 1]
    + %1: f16[8, 8, 1, 1] = pad(%w) {before = [0, 0, 0, 0], after = [0, 2, 0, 0]} @ a
    + %2: f16[1, 8, 4, 4] = pad(%r) {before = [0, 0, 0, 0], after = [0, 2, 0, 0]} @ a
    - %0: f16[1, 6, 4, 4] = conv_transpose2d(%x, %w, %r) {epilogue = mul(sum, e0)} @ a
    + %3: f16[1, 8, 4, 4] = conv_transpose2d(%x, %1, %2) {epilogue = mul(sum, e0)} @ a
    + %0: f16[1, 6, 4, 4] = slice(%3) {axis = 1, start = 0, size = 6} @ a
      output y = %0
    })",
                 1);
}

/// The channels that were added would be ones.
TEST(AlignPass, LeavesEpiloguesThatMakeSomethingOfZeros) {
  expect_unchanged("align", R"(graph g {
      input %x: f16[1, 8, 4, 4]
      param %w: f16[6, 8, 1, 1]
      %0: f16[1, 6, 4, 4] = conv2d(%x, %w) {epilogue = exp(sum)} @ a
      output y = %0
    })");
}

TEST(AlignPass, LeavesANormItsChannels) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f16[1, 9, 4, 4]
      param %w: f16[9, 9, 1, 1]
      %0: f16[1, 9, 4, 4] = conv2d(%x, %w)
      %1: f16[1, 9, 4, 4] = group_norm(%0) {groups = 2, eps = 1e-6, channels = 8}
      output y = %1
    })");
  const Graph before = graph;
  EXPECT_EQ(run_pass("align", graph).rewrites, 2);
  EXPECT_LT(distance(interpret_on_random(graph, 3), interpret_on_random(before, 3)), 1e-6);
}

TEST(AlignPass, CutsOffTheZerosWhereSomethingElseReadsThem) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f16[1, 8, 4, 4]
      param %w: f16[3, 8, 1, 1]
      param %v: f16[3, 8, 1, 1]
      %0: f16[1, 3, 4, 4] = conv2d(%x, %w) @ a
      %1: f16[1, 3, 4, 4] = conv2d(%x, %v) @ b
      %2: f16[1, 3, 4, 4] = mul(%0, %1) @ product
      %3: f16[1, 3, 4, 4] = add_scalar(%2) {value = 1} @ more
      output y = %3
    })");
  const Graph before = graph;
  EXPECT_EQ(run_pass("align", graph).rewrites, 3) << "zeros plus one are no zeros";
  EXPECT_EQ(graph.type(graph.nodes().back().inputs[0]).shape, (Shape{1, 3, 4, 4}));
  EXPECT_LE(distance(interpret_on_random(graph, 5), interpret_on_random(before, 5)), 1e-12);
}

TEST(AlignPass, DeclinesWhereNoMatrixUnitWorksOrNearlyAllVectorsAreFull) {
  constexpr std::string_view kWhy =
      "at most 1% of the arithmetic of convolutions is on channels that do not fill the vectors of a matrix unit";
  Graph in_f32 = parse_graph(R"(graph g {
      input %x: f32[1, 3, 4, 4]
      param %w: f32[6, 3, 1, 1]
      %0: f32[1, 6, 4, 4] = conv2d(%x, %w)
      output y = %0
    })");
  EXPECT_EQ(run_pass("align", in_f32).declined, kWhy);
  Graph full = parse_graph(R"(graph g {
      input %x: bf16[1, 16, 4, 4]
      param %w: bf16[64, 16, 1, 1]
      %0: bf16[1, 64, 4, 4] = conv2d(%x, %w)
      output y = %0
    })");
  EXPECT_EQ(run_pass("align", full).declined, kWhy);
  Graph but_for_the_last = parse_graph(R"(graph g {
      input %x: bf16[1, 64, 4, 4]
      param %w: bf16[512, 64, 3, 3]
      param %v: bf16[3, 512, 1, 1]
      %0: bf16[1, 512, 2, 2] = conv2d(%x, %w)
      %1: bf16[1, 3, 2, 2] = conv2d(%0, %v)
      output y = %1
    })");
  EXPECT_EQ(run_pass("align", but_for_the_last).declined, kWhy);
}

TEST(AlignPass, LeavesGroupedConvolutionsAlone) {
  expect_unchanged("align", R"(graph g {
      input %x: bf16[1, 6, 4, 4]
      param %w: bf16[6, 1, 3, 3]
      %0: bf16[1, 6, 2, 2] = conv2d(%x, %w) {groups = 6}
      output y = %0
    })");
}

}  // namespace
}  // namespace headroom
