#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FuseCommonSubexpressions, SharesChainsAndNodesOfSeveralResults) {
  expect_rewrite("fuse-common-subexpressions", R"(graph g {
      input %t: f32[2, 3]
      %1: f32[2, 3] = silu(%t) @ blocks.0
      %2: f32[2, 1] = slice(%1) {axis = 1, start = 1, size = 1} @ blocks.0
    - %3: f32[2, 3] = silu(%t) @ blocks.1
    - %4: f32[2, 1] = slice(%3) {axis = 1, start = 1, size = 1} @ blocks.1
    - %5: f32[2, 1] = slice(%3) {axis = 1, start = 2, size = 1} @ blocks.1
    + %5: f32[2, 1] = slice(%1) {axis = 1, start = 2, size = 1} @ blocks.1
      %6: f32[2, 3], %7: f32[2, 3] = rope_table(%t) {axes = [2, 2, 2]} @ a
    - %8: f32[2, 3], %9: f32[2, 3] = rope_table(%t) {axes = [2, 2, 2]} @ b
      output a = %2
    - output b = %4
    + output b = %2
      output c = %5
      output cos = %6
    - output sin = %9
    + output sin = %7
    })",
                 3);
}

TEST(FuseCommonSubexpressions, SharesWithTheRegionAround) {
  expect_rewrite("fuse-common-subexpressions", R"(graph g {
      input %t: f32[3]
      state %x: f32[3]
      %1: f32[3] = silu(%t)
      loop 2 %step {
    -   %2: f32[3] = silu(%t)
    -   %3: f32[3] = add(%x, %2)
    +   %3: f32[3] = add(%x, %1)
        next %x = %3
      }
      output y = %1
    })");
}

TEST(FuseCommonSubexpressions, LeavesAttributesThatDifferAndResultsThatExistInALoopOnly) {
  expect_unchanged("fuse-common-subexpressions", R"(graph g {
      input %t: f32[3]
      state %x: f32[3]
      %1: f32[3] = mul_scalar(%t) {value = 2}
      %2: f32[3] = mul_scalar(%t) {value = 3}
      loop 2 %step {
        %3: f32[3] = silu(%t)
        %4: f32[3] = add(%x, %3)
        next %x = %4
      }
      %5: f32[3] = silu(%t)
      output a = %1
      output b = %2
      output c = %5
    })");
}

TEST(FuseCommonSubexpressions, LeavesImagesOfDifferentLayouts) {
  expect_unchanged("fuse-common-subexpressions", R"(graph g {
      input %x: f32[1, 2, 3, 3]
      %1: f32[1, 2, 3, 3] channels_last = reshape(%x) {shape = [1, 2, 3, 3]}
      %2: f32[1, 2, 3, 3] = reshape(%x) {shape = [1, 2, 3, 3]}
      %3: f32[1, 2, 3, 3] channels_last = add(%1, %2)
      %4: f32[18] = reshape(%3) {shape = [18]}
      output y = %4
    })");
}

TEST(FuseCommonSubexpressions, LeavesReadsOfAStateOnBothSidesOfItsLoop) {
  expect_unchanged("fuse-common-subexpressions", R"(graph g {
      state %x: f32[3]
      %1: f32[3] = silu(%x)
      loop 2 %step {
        %2: f32[3] = silu(%x)
        next %x = %2
      }
      %3: f32[3] = silu(%x)
      output before = %1
      output after = %3
    })");
}

}  // namespace
}  // namespace headroom
