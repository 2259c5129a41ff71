#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(MergeRows, JoinsTablesThatDifferInTheirLastExtent) {
  expect_rewrite("merge-rows", R"(graph g {
      input %times: f32[4, 2]
      param %u: f32[3, 2]
      param %w: f32[5, 2]
      state %x: f32[3]
      state %y: f32[5]
      %1: f32[4, 3] = linear(%times, %u) @ a
      %2: f32[4, 5] = linear(%times, %w) @ b
    + %7: f32[4, 8] = concat(%1, %2) {axis = 1} @ a
      loop 4 %step {
    -   %3: f32[3] = row(%1, %step) @ a
    +   %8: f32[8] = row(%7, %step) @ a
    +   %3: f32[3] = slice(%8) {axis = 0, start = 0, size = 3} @ a
        %4: f32[3] = add(%x, %3) @ a
    -   %5: f32[5] = row(%2, %step) @ b
    +   %5: f32[5] = slice(%8) {axis = 0, start = 3, size = 5} @ b
        %6: f32[5] = add(%y, %5) @ b
        next %x = %4
        next %y = %6
      }
      output x = %x
      output y = %y
    })",
                 2);
}

TEST(MergeRows, KeepsApartWhatHasNoRowInCommon) {
  // Another dtype, other extents before the last, another number of rows, and inputs that no node computes.
  expect_unchanged("merge-rows", R"(graph g {
      input %times: f32[4, 2, 2]
      input %given: f32[4, 2, 3]
      input %more: f32[4, 2, 3]
      input %flat: f32[5, 6]
      state %x: f32[2, 2]
      state %y: f32[2, 3]
      state %z: f32[6]
      state %b: bf16[2, 2]
      state %w: f32[4]
      %1: f32[4, 2, 2] = silu(%times)
      %2: bf16[4, 2, 2] = cast(%times) {dtype = bf16}
      %3: f32[5, 6] = silu(%flat)
      %4: f32[4, 4] = reshape(%1) {shape = [4, 4]}
      loop 4 %step {
        %5: f32[2, 2] = row(%1, %step)
        %6: bf16[2, 2] = row(%2, %step)
        %7: f32[6] = row(%3, %step)
        %8: f32[2, 3] = row(%given, %step)
        %9: f32[2, 3] = row(%more, %step)
        %10: f32[4] = row(%4, %step)
        %11: f32[2, 2] = add(%x, %5)
        %12: bf16[2, 2] = add(%b, %6)
        %13: f32[6] = add(%z, %7)
        %14: f32[2, 3] = add(%8, %9)
        %15: f32[2, 3] = add(%y, %14)
        %16: f32[4] = add(%w, %10)
        next %x = %11
        next %b = %12
        next %z = %13
        next %y = %15
        next %w = %16
      }
      output x = %x
    })");
}

TEST(MergeRows, JoinsEachGroupByItself) {
  expect_rewrite("merge-rows", R"(graph g {
      input %t: f32[3, 2, 2]
      state %x: f32[2, 2]
      state %y: f32[4]
      %1: f32[3, 2, 2] = silu(%t)
      %2: f32[3, 2, 2] = relu(%t)
      %3: f32[3, 4] = reshape(%1) {shape = [3, 4]}
      %4: f32[3, 4] = reshape(%2) {shape = [3, 4]}
    + %13: f32[3, 2, 4] = concat(%1, %2) {axis = 2}
    + %14: f32[3, 8] = concat(%3, %4) {axis = 1}
      loop 3 %step {
    -   %5: f32[2, 2] = row(%1, %step)
    +   %15: f32[2, 4] = row(%13, %step)
    -   %6: f32[2, 2] = row(%2, %step)
    +   %16: f32[8] = row(%14, %step)
    -   %7: f32[4] = row(%3, %step)
    -   %8: f32[4] = row(%4, %step)
    +   %5: f32[2, 2] = slice(%15) {axis = 1, start = 0, size = 2}
    +   %6: f32[2, 2] = slice(%15) {axis = 1, start = 2, size = 2}
    +   %7: f32[4] = slice(%16) {axis = 0, start = 0, size = 4}
    +   %8: f32[4] = slice(%16) {axis = 0, start = 4, size = 4}
        %9: f32[2, 2] = mul(%5, %6)
        %10: f32[2, 2] = add(%x, %9)
        %11: f32[4] = mul(%7, %8)
        %12: f32[4] = add(%y, %11)
        next %x = %10
        next %y = %12
      }
      output x = %x
      output y = %y
    })",
                 4);
}

TEST(MergeRows, HasNothingToDoWithoutALoop) {
  expect_unchanged("merge-rows", R"(graph g {
      input %x: f32[2]
      %1: f32[2] = silu(%x)
      output y = %1
    })");
}

}  // namespace
}  // namespace headroom
