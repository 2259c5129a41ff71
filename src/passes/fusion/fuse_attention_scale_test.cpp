#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FuseAttentionScale, ScalesTheWeightOfTheNorm) {
  expect_rewrite("fuse-attention-scale", R"(graph g {
      input %x: f32[2, 3, 8]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
    - %1: f32[2, 2, 3, 4] = qk_norm_rope(%x, %w, %cos, %sin) {heads = 2, eps = 1e-06} @ attn.norm_q
    - %2: f32[2, 2, 3, 4] = mul_scalar(%1) {value = 0.3} @ attn
    + %3: f32[4] = mul_scalar(%w) {value = 0.3} @ attn.norm_q
    + %2: f32[2, 2, 3, 4] = qk_norm_rope(%x, %3, %cos, %sin) {heads = 2, eps = 1e-06} @ attn.norm_q
      output q = %2
    })");
}

TEST(FuseAttentionScale, ScalesTheWeightOfANormBelowARotation) {
  expect_rewrite("fuse-attention-scale", R"(graph g {
      input %x: f32[2, 2, 3, 4]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
    + %4: f32[4] = mul_scalar(%w) {value = 0.3} @ attn.norm_q
    - %1: f32[2, 2, 3, 4] = rms_norm(%x, %w) {eps = 1e-06} @ attn.norm_q
    + %1: f32[2, 2, 3, 4] = rms_norm(%x, %4) {eps = 1e-06} @ attn.norm_q
      %2: f32[2, 2, 3, 4] = rope(%1, %cos, %sin) @ attn
    - %3: f32[2, 2, 3, 4] = mul_scalar(%2) {value = 0.3} @ attn
    - output q = %3
    + output q = %2
    })");
}

TEST(FuseAttentionScale, ReachesThroughJoinedStreams) {
  expect_rewrite("fuse-attention-scale", R"(graph g {
      input %x: f32[2, 3, 8]
      input %y: f32[2, 1, 8]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      input %cos.y: f32[1, 2]
      input %sin.y: f32[1, 2]
      param %w: f32[4]
    + %5: f32[4] = mul_scalar(%w) {value = 0.3} @ norm_q
    + %6: f32[4] = mul_scalar(%w) {value = 0.3} @ norm_added_q
    - %1: f32[2, 2, 3, 4] = qk_norm_rope(%x, %w, %cos, %sin) {heads = 2, eps = 1e-06} @ norm_q
    + %1: f32[2, 2, 3, 4] = qk_norm_rope(%x, %5, %cos, %sin) {heads = 2, eps = 1e-06} @ norm_q
    - %2: f32[2, 2, 1, 4] = qk_norm_rope(%y, %w, %cos.y, %sin.y) {heads = 2, eps = 1e-05} @ norm_added_q
    + %2: f32[2, 2, 1, 4] = qk_norm_rope(%y, %6, %cos.y, %sin.y) {heads = 2, eps = 1e-05} @ norm_added_q
      %3: f32[2, 2, 4, 4] = concat(%1, %2) {axis = 2} @ attn
    - %4: f32[2, 2, 4, 4] = mul_scalar(%3) {value = 0.3} @ attn
    - output q = %4
    + output q = %3
    })");
}

TEST(FuseAttentionScale, LeavesQueriesThatAreReadUnscaledToo) {
  expect_unchanged("fuse-attention-scale", R"(graph g {
      input %x: f32[2, 3, 8]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
      %1: f32[2, 2, 3, 4] = qk_norm_rope(%x, %w, %cos, %sin) {heads = 2, eps = 1e-06}
      %2: f32[2, 2, 3, 4] = mul_scalar(%1) {value = 0.3}
      output q = %2
      output unscaled = %1
    })");
}

TEST(FuseAttentionScale, LeavesStreamsOfAnotherKind) {
  expect_unchanged("fuse-attention-scale", R"(graph g {
      input %x: f32[2, 3, 8]
      input %y: f32[2, 2, 1, 4]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
      %1: f32[2, 2, 3, 4] = qk_norm_rope(%x, %w, %cos, %sin) {heads = 2, eps = 1e-06}
      %2: f32[2, 2, 4, 4] = concat(%1, %y) {axis = 2}
      %3: f32[2, 2, 4, 4] = mul_scalar(%2) {value = 0.3}
      output q = %3
    })");
}

TEST(FuseAttentionScale, LeavesJoinedStreamsThatAreReadUnscaledToo) {
  expect_unchanged("fuse-attention-scale", R"(graph g {
      input %x: f32[2, 3, 8]
      input %y: f32[2, 3, 8]
      input %cos: f32[3, 2]
      input %sin: f32[3, 2]
      param %w: f32[4]
      %1: f32[2, 2, 3, 4] = qk_norm_rope(%x, %w, %cos, %sin) {heads = 2, eps = 1e-06}
      %2: f32[2, 2, 3, 4] = qk_norm_rope(%y, %w, %cos, %sin) {heads = 2, eps = 1e-06}
      %3: f32[2, 2, 6, 4] = concat(%1, %2) {axis = 2}
      %4: f32[2, 2, 6, 4] = mul_scalar(%3) {value = 0.3}
      output q = %4
      output unscaled = %3
    })");
}

}  // namespace
}  // namespace headroom
