#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(DeadCode, DropsChainsThatReachNoOutput) {
  expect_rewrite("dead-code", R"(graph g {
      input %x: f32[3]
      %1: f32[3] = silu(%x)
    - %2: f32[3] = relu(%x)
    - %3: f32[3] = add(%2, %1)
      output y = %1
    })",
                 2);
}

TEST(DeadCode, KeepsStateUpdatesAndNodesWithOneResultRead) {
  expect_unchanged("dead-code", R"(graph g {
      input %ids: f32[3, 1]
      state %x: f32[3]
      %1: f32[3, 2], %2: f32[3, 2] = rope_table(%ids) {axes = [4]}
      loop 2 %step {
        %3: f32[3] = silu(%x)
        next %x = %3
      }
      output sin = %2
    })");
}

/// Only the state then determines the position of the first loop.
TEST(DeadCode, LeavesALoopWithoutNodesBeforeTheOneThatUpdatesWhatItReads) {
  expect_rewrite("dead-code", R"(graph g {
      input %x: f32[3]
      state %s: f32[3]
      state %t: f32[3]
      loop 2 %i {
        next %t = %s
    -   yield %1: f32[3] = %s
      }
      loop 2 %j {
    -   %2: f32[3] = add(%x, %1)
        %3: f32[3] = add(%s, %x)
        next %s = %3
      }
      output s = %s
    })",
                 1);
}

}  // namespace
}  // namespace headroom
