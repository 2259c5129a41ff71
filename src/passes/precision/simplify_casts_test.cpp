#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(SimplifyCasts, DropsACastToTheSameDtype) {
  expect_rewrite("simplify-casts", R"(graph g {
      input %x: f32[3]
    - %1: f32[3] = cast(%x) {dtype = f32}
    - %2: f32[3] = silu(%1)
    + %2: f32[3] = silu(%x)
      output y = %2
    })");
}

TEST(SimplifyCasts, UndoesAWidening) {
  expect_rewrite("simplify-casts", R"(graph g {
      input %x: bf16[3]
      %1: f32[3] = cast(%x) {dtype = f32}
    - %2: bf16[3] = cast(%1) {dtype = bf16}
    - %3: bf16[3] = silu(%2)
    + %3: bf16[3] = silu(%x)
      output y = %3
      output wide = %1
    })");
}

TEST(SimplifyCasts, StartsFromTheSourceOfAWidening) {
  expect_rewrite("simplify-casts", R"(graph g {
      input %x: bf16[3]
    - %1: f32[3] = cast(%x) {dtype = f32} @ a
    - %2: f64[3] = cast(%1) {dtype = f64} @ b
    - %3: f16[3] = cast(%2) {dtype = f16} @ c
    + %3: f16[3] = cast(%x) {dtype = f16} @ c
      output y = %3
    })",
                 2);
}

TEST(SimplifyCasts, NarrowsWeightsBeforeTheyAreJoined) {
  expect_rewrite("simplify-casts", R"(graph g {
      input %x: bf16[3, 2]
      param %q: bf16[2, 2]
      param %k: f32[1, 2]
    - %1: f32[2, 2] = cast(%q) {dtype = f32} @ attn.to_q
    - %2: f32[3, 2] = concat(%1, %k) {axis = 0} @ attn
    - %3: bf16[3, 2] = cast(%2) {dtype = bf16} @ attn
    + %1: bf16[1, 2] = cast(%k) {dtype = bf16} @ attn
    + %3: bf16[3, 2] = concat(%q, %1) {axis = 0} @ attn
      %4: bf16[3, 3] = linear(%x, %3) @ attn
      output y = %4
    })");
}

TEST(SimplifyCasts, KeepsCastsThatRound) {
  expect_unchanged("simplify-casts", R"(graph g {
      input %x: f32[3]
      input %half: f16[3]
      %1: bf16[3] = cast(%x) {dtype = bf16}
      %2: f32[3] = cast(%1) {dtype = f32}
      %3: bf16[3] = cast(%half) {dtype = bf16}
      %4: f16[3] = cast(%3) {dtype = f16}
      output a = %2
      output b = %4
    })");
}

TEST(SimplifyCasts, KeepsACopyOfAStateThatChanges) {
  expect_unchanged("simplify-casts", R"(graph g {
      state %x: f32[3]
      %1: f32[3] = cast(%x) {dtype = f32}
      loop 2 %step {
        %2: f32[3] = silu(%x)
        next %x = %2
      }
      %3: f32[3] = add(%1, %x)
      output y = %3
    })");
}

TEST(SimplifyCasts, KeepsActivationsJoinedInF32) {
  expect_unchanged("simplify-casts", R"(graph g {
      input %x: f32[3]
      input %y: f32[2]
      %1: f32[5] = concat(%x, %y) {axis = 0}
      %2: bf16[5] = cast(%1) {dtype = bf16}
      output y = %2
    })");
}

}  // namespace
}  // namespace headroom
