#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(DeadCode, DropsChainsThatReachNoOutput) {
  expect_rewrite("dead-code", R"(graph g {
      input %x: f32[3]
      %1: f32[3] = silu(%x)
      %2: f32[3] = relu(%x)
      %3: f32[3] = add(%2, %1)
      output y = %1
    })",
                 R"(graph g {
      input %x: f32[3]
      %1: f32[3] = silu(%x)
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

}  // namespace
}  // namespace headroom
