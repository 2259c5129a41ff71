#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(WeightsFirst, MovesTransformationsOfWeightsOutOfLoopsInOrder) {
  expect_rewrite("weights-first", R"(graph g {
      param %w: bf16[2, 2]
      state %x: f32[3, 2]
    + %2: f32[2, 2] = cast(%w) {dtype = f32} @ fc
    + %3: f32[2, 2] = mul_scalar(%2) {value = 0.5} @ fc
      loop 4 %step {
        %1: f32[3, 2] = silu(%x)
    -   %2: f32[2, 2] = cast(%w) {dtype = f32} @ fc
    -   %3: f32[2, 2] = mul_scalar(%2) {value = 0.5} @ fc
        %4: f32[3, 2] = linear(%1, %3) @ fc
        next %x = %4
      }
    })",
                 2);
}

TEST(WeightsFirst, LeavesALoopThatStartsWithAWeight) {
  expect_rewrite("weights-first", R"(graph g {
      param %w: f32[2]
      state %x: f32[2]
    + %1: f32[2] = silu(%w)
      loop 4 %step {
    -   %1: f32[2] = silu(%w)
        %2: f32[2] = add(%x, %1)
        next %x = %2
      }
    })");
}

TEST(WeightsFirst, LeavesWhatDependsOnInputsAndWeightsInFront) {
  expect_unchanged("weights-first", R"(graph g {
      input %x: f32[3, 2]
      param %w: bf16[2, 2]
      %1: f32[2, 2] = cast(%w) {dtype = f32}
      %2: f32[3, 2] = linear(%x, %1)
      output y = %2
    })");
}

}  // namespace
}  // namespace headroom
