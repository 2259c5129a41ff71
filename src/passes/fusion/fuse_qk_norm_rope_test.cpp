#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FuseQkNormRope, FusesOneStream) {
  expect_rewrite("fuse-qk-norm-rope", R"(graph g {
      input %x: f32[2, 3, 8]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
    - %1: f32[2, 3, 2, 4] = reshape(%x) {shape = [2, 3, 2, 4]} @ attn
    - %2: f32[2, 2, 3, 4] = transpose(%1) {perm = [0, 2, 1, 3]} @ attn
    - %3: f32[2, 2, 3, 4] = rms_norm(%2, %w) {eps = 1e-06} @ attn.norm_q
    - %4: f32[2, 2, 3, 4] = rope(%3, %cos, %sin) @ attn
    + %4: f32[2, 2, 3, 4] = qk_norm_rope(%x, %w, %cos, %sin) {heads = 2, eps = 1e-06} @ attn.norm_q
      output q = %4
    })");
}

TEST(FuseQkNormRope, GivesEachJoinedStreamItsRowsOfTheTables) {
  expect_rewrite("fuse-qk-norm-rope", R"(graph g {
      input %text: f32[2, 3, 8]
      input %image: f32[2, 5, 8]
      input %cos: f32[8, 2]
      input %sin: f32[8, 2]
      param %w.text: f32[4]
      param %w.image: f32[4]
    - %1: f32[2, 3, 2, 4] = reshape(%text) {shape = [2, 3, 2, 4]} @ attn
    - %2: f32[2, 2, 3, 4] = transpose(%1) {perm = [0, 2, 1, 3]} @ attn
    - %3: f32[2, 2, 3, 4] = rms_norm(%2, %w.text) {eps = 1e-06} @ attn.norm_added_q
    - %4: f32[2, 5, 2, 4] = reshape(%image) {shape = [2, 5, 2, 4]} @ attn
    - %5: f32[2, 2, 5, 4] = transpose(%4) {perm = [0, 2, 1, 3]} @ attn
    - %6: f32[2, 2, 5, 4] = rms_norm(%5, %w.image) {eps = 1e-05} @ attn.norm_q
    + %9: f32[3, 2] = slice(%cos) {axis = 0, start = 0, size = 3} @ attn
    + %10: f32[3, 2] = slice(%sin) {axis = 0, start = 0, size = 3} @ attn
    + %3: f32[2, 2, 3, 4] = qk_norm_rope(%text, %w.text, %9, %10) {heads = 2, eps = 1e-06} @ attn.norm_added_q
    + %11: f32[5, 2] = slice(%cos) {axis = 0, start = 3, size = 5} @ attn
    + %12: f32[5, 2] = slice(%sin) {axis = 0, start = 3, size = 5} @ attn
    + %6: f32[2, 2, 5, 4] = qk_norm_rope(%image, %w.image, %11, %12) {heads = 2, eps = 1e-05} @ attn.norm_q
      %7: f32[2, 2, 8, 4] = concat(%3, %6) {axis = 2} @ attn
    - %8: f32[2, 2, 8, 4] = rope(%7, %cos, %sin) @ attn
    - output q = %8
    + output q = %7
    })");
}

/// If fuse-rows generates the kernels, a single stream is left unchanged, and joined ones are split.
TEST(FuseQkNormRope, PartsStreamsWhereKernelsAreGenerated) {
  constexpr std::string_view kDiff = R"(graph g {
      input %text: f32[2, 3, 8]
      input %image: f32[2, 5, 8]
      input %cos: f32[8, 2]
      input %sin: f32[8, 2]
      param %w: f32[4]
      %1: f32[2, 3, 2, 4] = reshape(%text) {shape = [2, 3, 2, 4]} @ attn
      %2: f32[2, 2, 3, 4] = transpose(%1) {perm = [0, 2, 1, 3]} @ attn
      %3: f32[2, 2, 3, 4] = rms_norm(%2, %w) {eps = 1e-06} @ attn.norm_added_q
      %4: f32[2, 5, 2, 4] = reshape(%image) {shape = [2, 5, 2, 4]} @ attn
      %5: f32[2, 2, 5, 4] = transpose(%4) {perm = [0, 2, 1, 3]} @ attn
      %6: f32[2, 2, 5, 4] = rms_norm(%5, %w) {eps = 1e-05} @ attn.norm_q
    + %9: f32[3, 2] = slice(%cos) {axis = 0, start = 0, size = 3} @ attn
    + %10: f32[3, 2] = slice(%sin) {axis = 0, start = 0, size = 3} @ attn
    + %11: f32[2, 2, 3, 4] = rope(%3, %9, %10) @ attn
    + %12: f32[5, 2] = slice(%cos) {axis = 0, start = 3, size = 5} @ attn
    + %13: f32[5, 2] = slice(%sin) {axis = 0, start = 3, size = 5} @ attn
    + %14: f32[2, 2, 5, 4] = rope(%6, %12, %13) @ attn
    - %7: f32[2, 2, 8, 4] = concat(%3, %6) {axis = 2} @ attn
    + %7: f32[2, 2, 8, 4] = concat(%11, %14) {axis = 2} @ attn
    - %8: f32[2, 2, 8, 4] = rope(%7, %cos, %sin) @ attn
    - output q = %8
    + output q = %7
    })";
  Graph graph = graph_before(kDiff);
  EXPECT_EQ(run_pass("fuse-qk-norm-rope", graph, kGeneratingGpu).rewrites, 1);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kDiff)));
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(graph_before(kDiff), 7)), 1e-12);
  EXPECT_EQ(run_pass("fuse-qk-norm-rope", graph, kGeneratingGpu).rewrites, 0);
}

TEST(FuseQkNormRope, LeavesAStreamWithoutANorm) {
  expect_unchanged("fuse-qk-norm-rope", R"(graph g {
      input %text: f32[2, 3, 8]
      input %image: f32[2, 2, 5, 4]
      input %cos: f32[8, 2]
      input %sin: f32[8, 2]
      param %w: f32[4]
      %1: f32[2, 3, 2, 4] = reshape(%text) {shape = [2, 3, 2, 4]}
      %2: f32[2, 2, 3, 4] = transpose(%1) {perm = [0, 2, 1, 3]}
      %3: f32[2, 2, 3, 4] = rms_norm(%2, %w) {eps = 1e-06}
      %4: f32[2, 2, 8, 4] = concat(%3, %image) {axis = 2}
      %5: f32[2, 2, 8, 4] = rope(%4, %cos, %sin)
      output q = %5
    })");
}

TEST(FuseQkNormRope, LeavesANormWithoutAWeight) {
  expect_unchanged("fuse-qk-norm-rope", R"(graph g {
      input %x: f32[2, 3, 8]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      %1: f32[2, 3, 2, 4] = reshape(%x) {shape = [2, 3, 2, 4]}
      %2: f32[2, 2, 3, 4] = transpose(%1) {perm = [0, 2, 1, 3]}
      %3: f32[2, 2, 3, 4] = rms_norm(%2) {eps = 1e-06}
      %4: f32[2, 2, 3, 4] = rope(%3, %cos, %sin)
      output q = %4
    })");
}

TEST(FuseQkNormRope, LeavesHeadsThatAreSplitInAnotherWay) {
  // [b, s*h, d] split as if it were [b, s, h*d] has the right number of elements; in the second case the transpose
  // differs.
  expect_unchanged("fuse-qk-norm-rope", R"(graph g {
      input %x: f32[2, 6, 4]
      input %y: f32[2, 3, 12]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
      %1: f32[2, 3, 2, 4] = reshape(%x) {shape = [2, 3, 2, 4]}
      %2: f32[2, 2, 3, 4] = transpose(%1) {perm = [0, 2, 1, 3]}
      %3: f32[2, 2, 3, 4] = rms_norm(%2, %w) {eps = 1e-06}
      %4: f32[2, 2, 3, 4] = rope(%3, %cos, %sin)
      %5: f32[2, 3, 3, 4] = reshape(%y) {shape = [2, 3, 3, 4]}
      %6: f32[3, 2, 3, 4] = transpose(%5) {perm = [1, 0, 2, 3]}
      %7: f32[3, 2, 3, 4] = rms_norm(%6, %w) {eps = 1e-06}
      %8: f32[3, 2, 3, 4] = rope(%7, %cos, %sin)
      output q = %4
      output k = %8
    })");
}

TEST(FuseQkNormRope, LeavesHeadsThatAreJoinedAndNormsThatAreReadTwice) {
  expect_unchanged("fuse-qk-norm-rope", R"(graph g {
      input %x: f32[2, 3, 8]
      input %y: f32[2, 3, 8]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
      %1: f32[2, 3, 2, 4] = reshape(%x) {shape = [2, 3, 2, 4]}
      %2: f32[2, 2, 3, 4] = transpose(%1) {perm = [0, 2, 1, 3]}
      %3: f32[2, 2, 3, 4] = rms_norm(%2, %w) {eps = 1e-06}
      %4: f32[2, 3, 2, 4] = reshape(%y) {shape = [2, 3, 2, 4]}
      %5: f32[2, 2, 3, 4] = transpose(%4) {perm = [0, 2, 1, 3]}
      %6: f32[2, 2, 3, 4] = rms_norm(%5, %w) {eps = 1e-06}
      %7: f32[2, 4, 3, 4] = concat(%3, %6) {axis = 1}
      %8: f32[2, 4, 3, 4] = rope(%7, %cos, %sin)
      %9: f32[2, 2, 3, 4] = rms_norm(%5, %w) {eps = 1e-05}
      %10: f32[2, 2, 3, 4] = rope(%9, %cos, %sin)
      output q = %8
      output k = %10
      output normed = %9
    })");
}

}  // namespace
}  // namespace headroom
