#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FuseLinearActivation, MakesEachActivationAnEpilogue) {
  expect_rewrite("fuse-activation", R"(graph g {
      input %x: f32[2, 3, 4]
      param %w: f32[5, 4]
      param %b: f32[5]
    - %1: f32[2, 3, 5] = linear(%x, %w, %b) @ ff.net.0.proj
    - %2: f32[2, 3, 5] = gelu_tanh(%1) @ ff
    - %3: f32[2, 3, 5] = linear(%x, %w) @ other
    - %4: f32[2, 3, 5] = gelu_erf(%3)
    - %5: f32[2, 3, 5] = linear(%x, %w, %b) @ embedder.linear_1
    - %6: f32[2, 3, 5] = silu(%5) @ embedder
    - %7: f32[2, 3, 5] = linear(%x, %w, %b) @ net.0
    - %8: f32[2, 3, 5] = relu(%7) @ net.1
    + %2: f32[2, 3, 5] = linear(%x, %w, %b) {epilogue = gelu_tanh(sum)} @ ff.net.0.proj
    + %4: f32[2, 3, 5] = linear(%x, %w) {epilogue = gelu_erf(sum)} @ other
    + %6: f32[2, 3, 5] = linear(%x, %w, %b) {epilogue = silu(sum)} @ embedder.linear_1
    + %8: f32[2, 3, 5] = linear(%x, %w, %b) {epilogue = relu(sum)} @ net.0
      output a = %2
      output b = %4
      output c = %6
      output d = %8
    })",
                 4);
}

TEST(FuseLinearActivation, LeavesAMatmulThatIsReadTwice) {
  expect_unchanged("fuse-activation", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[5, 4]
      %1: f32[3, 5] = linear(%x, %w)
      %2: f32[3, 5] = silu(%1)
      output y = %2
      output product = %1
    })");
}

TEST(FuseLinearActivation, LeavesOtherActivationsAndEpiloguesAlone) {
  expect_unchanged("fuse-activation", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[5, 4]
      %1: f32[3, 5] = linear(%x, %w) {epilogue = silu(sum)}
      %2: f32[3, 5] = silu(%1)
      %3: f32[3, 5] = linear(%x, %w)
      %4: f32[3, 5] = tanh(%3)
      output y = %2
      output z = %4
    })");
}

TEST(FuseLinearActivation, LeavesAMatmulOutsideTheLoopOutside) {
  expect_unchanged("fuse-activation", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[5, 4]
      state %sum: f32[3, 5]
      %1: f32[3, 5] = linear(%x, %w)
      loop 3 %step {
        %2: f32[3, 5] = silu(%1)
        %3: f32[3, 5] = add(%sum, %2)
        next %sum = %3
      }
    })");
}

TEST(FuseLinearActivation, LeavesAMatmulOfAStateThatChangesInBetween) {
  expect_unchanged("fuse-activation", R"(graph g {
      param %w: f32[4, 4]
      state %x: f32[3, 4]
      %1: f32[3, 4] = linear(%x, %w)
      loop 3 %step {
        %2: f32[3, 4] = relu(%x)
        next %x = %2
      }
      %3: f32[3, 4] = silu(%1)
      output y = %3
    })");
}

}  // namespace
}  // namespace headroom
