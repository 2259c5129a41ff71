#include <fmt/format.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(DeadRows, MakesOnlyTheRowsOfAMatmulThatASliceReads) {
  expect_rewrite("dead-rows", R"(graph g {
      input %x: f32[2, 5, 4]
      param %w: f32[3, 4]
    + %3: f32[2, 2, 4] = slice(%x) {axis = 1, start = 3, size = 2} @ to
    - %0: f32[2, 5, 3] = linear(%x, %w) @ to
    + %0: f32[2, 2, 3] = linear(%3, %w) @ to
    - %1: f32[2, 5, 3] = silu(%0) @ act
    - %2: f32[2, 2, 3] = slice(%1) {axis = 1, start = 3, size = 2} @ image
    + %2: f32[2, 2, 3] = silu(%0) @ act
      output y = %2
    })");
}

TEST(DeadRows, CutsTheOperandsOfAnEpilogueButNotItsVectors) {
  expect_rewrite("dead-rows", R"(graph g {
      input %x: f32[2, 5, 4]
      input %r: f32[2, 5, 3]
      input %v: f32[3]
      param %w: f32[3, 4]
    + %3: f32[2, 2, 4] = slice(%x) {axis = 1, start = 3, size = 2} @ to
    + %4: f32[2, 2, 3] = slice(%r) {axis = 1, start = 3, size = 2} @ to
    - %0: f32[2, 5, 3] = linear(%x, %w, %r, %v) {epilogue = add(e0, mul(e1, sum))} @ to
    - %2: f32[2, 2, 3] = slice(%0) {axis = 1, start = 3, size = 2} @ image
    + %2: f32[2, 2, 3] = linear(%3, %w, %4, %v) {epilogue = add(e0, mul(e1, sum))} @ to
      output y = %2
    })");
}

TEST(DeadRows, CutsTheOperandsOfTheEpilogueOfAMatmul) {
  expect_rewrite("dead-rows", R"(graph g {
      input %a: f32[2, 5, 4]
      input %b: f32[2, 4, 3]
      input %r: f32[2, 5, 3]
    + %3: f32[2, 2, 4] = slice(%a) {axis = 1, start = 3, size = 2} @ to
    + %4: f32[2, 2, 3] = slice(%r) {axis = 1, start = 3, size = 2} @ to
    - %0: f32[2, 5, 3] = matmul(%a, %b, %r) {epilogue = mul(sum, e0)} @ to
    - %2: f32[2, 2, 3] = slice(%0) {axis = 1, start = 3, size = 2} @ image
    + %2: f32[2, 2, 3] = matmul(%3, %b, %4) {epilogue = mul(sum, e0)} @ to
      output y = %2
    })");
}

TEST(DeadRows, ReadsTheQueriesOfAnAttentionAloneButAllOfItsKeysAndValues) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[1, 6, 4]
      input %cos: f32[6, 1]
      input %sin: f32[6, 1]
      input %gate: f32[1, 1, 4]
      param %wq: f32[4, 4]
      param %wk: f32[4, 4]
      param %wv: f32[4, 4]
      param %wo: f32[4, 4]
      param %norm: f32[2]
      %0: f32[1, 6, 4] = linear(%x, %wq) @ q
      %1: f32[1, 6, 4] = linear(%x, %wk) @ k
      %2: f32[1, 6, 4] = linear(%x, %wv) @ v
      %3: f32[1, 6, 2, 2] = reshape(%0) {shape = [1, 6, 2, 2]} @ q
      %4: f32[1, 6, 2, 2] = reshape(%1) {shape = [1, 6, 2, 2]} @ k
      %5: f32[1, 6, 2, 2] = reshape(%2) {shape = [1, 6, 2, 2]} @ v
      %6: f32[1, 2, 6, 2] = transpose(%3) {perm = [0, 2, 1, 3]} @ q
      %7: f32[1, 2, 6, 2] = transpose(%4) {perm = [0, 2, 1, 3]} @ k
      %8: f32[1, 2, 6, 2] = transpose(%5) {perm = [0, 2, 1, 3]} @ v
      %9: f32[1, 2, 6, 2] = rms_norm(%6, %norm) {eps = 1e-06} @ norm_q
      %10: f32[1, 2, 6, 2] = rope(%9, %cos, %sin) @ q
      %11: f32[1, 2, 6, 2] = rope(%7, %cos, %sin) @ k
      %12: f32[1, 2, 6, 6] = matmul(%10, %11) {transpose_b = 1} @ attn
      %13: f32[1, 2, 6, 6] = softmax(%12) @ attn
      %14: f32[1, 2, 6, 2] = matmul(%13, %8) @ attn
      %15: f32[1, 6, 2, 2] = transpose(%14) {perm = [0, 2, 1, 3]} @ attn
      %16: f32[1, 6, 4] = reshape(%15) {shape = [1, 6, 4]} @ attn
      %17: f32[1, 6, 4] = linear(%16, %wo) @ out
      %18: f32[1, 6, 4] = mul(%gate, %17) @ out
      %19: f32[1, 6, 4] = add(%x, %18) @ out
      %20: f32[1, 4, 4] = slice(%19) {axis = 1, start = 2, size = 4} @ image
      %21: f32[1, 3, 4] = slice(%20) {axis = 1, start = 0, size = 3} @ made
      output y = %21
    })");
  const Graph before = graph;
  EXPECT_GE(run_pass("dead-rows", graph).rewrites, 1);
  const auto shapes_of = [&](Op op) {
    std::vector<Shape> shapes;
    for (const Node& node : graph.nodes())
      if (node.op == op) shapes.push_back(graph.type(node.results[0]).shape);
    return shapes;
  };
  const Shape all{1, 6, 4}, read{1, 3, 4};
  EXPECT_EQ(shapes_of(Op::kLinear), (std::vector<Shape>{all, all, read, read}));
  EXPECT_EQ(shapes_of(Op::kMatmul), (std::vector<Shape>{{1, 2, 3, 6}, {1, 2, 3, 2}}));
  EXPECT_EQ(shapes_of(Op::kRmsNorm), (std::vector<Shape>{{1, 2, 3, 2}}));
  EXPECT_LE(distance(interpret_on_random(graph, 5), interpret_on_random(before, 5)), 1e-12);
}

TEST(DeadRows, LeavesOutThePartsOfAConcatenationThatLieElsewhere) {
  expect_rewrite("dead-rows", R"(graph g {
      input %a: f32[1, 2, 4]
      input %b: f32[1, 3, 4]
      param %w: f32[3, 4]
    - %0: f32[1, 2, 3] = linear(%a, %w) @ a
    - %1: f32[1, 3, 3] = linear(%b, %w) @ b
    - %2: f32[1, 5, 3] = concat(%0, %1) {axis = 1} @ both
    - %3: f32[1, 2, 3] = slice(%2) {axis = 1, start = 2, size = 2} @ part
    + %4: f32[1, 2, 4] = slice(%b) {axis = 1, start = 0, size = 2} @ b
    + %3: f32[1, 2, 3] = linear(%4, %w) @ b
      output y = %3
    })");
}

TEST(DeadRows, LeavesWhatIsReadOutsideTheSliceAndWhatMixesRows) {
  const auto unchanged = [](std::string_view made, std::string_view slice, std::string_view also) {
    expect_unchanged("dead-rows", fmt::format(R"(graph g {{
      input %x: f32[1, 4, 4]
      param %w: f32[4, 4]
      %0: f32[1, 4, 4] = linear(%x, %w) @ to
      %1: f32[1, 4, 4] = {}
      %2: f32[{}
      output y = %2{}
    }})",
                                              made, slice, also));
  };
  unchanged("silu(%0)", "1, 2, 4] = slice(%1) {axis = 1, start = 0, size = 2}", "\n      output all = %0");
  unchanged("softmax(%0)", "1, 4, 2] = slice(%1) {axis = 2, start = 0, size = 2}", "");
  unchanged("silu(%0)", "1, 4, 2] = slice(%1) {axis = 2, start = 0, size = 2}", "");
  // Without a matmul nothing is saved.
  unchanged("silu(%x)", "1, 2, 4] = slice(%1) {axis = 1, start = 0, size = 2}", "\n      output all = %0");
}

}  // namespace
}  // namespace headroom
