#include <gmock/gmock.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr std::string_view kLoss = R"(graph g {
    input %x: f32[3, 5]
    input %ids: i32[3]
    %1: f32[3], %2: f32[3] = cross_entropy(%x, %ids)
    %3: f32[3] = mul(%1, %2)
    output y = %3
    output logs = %2
  })";

TEST(WriteOut, ReplacesWhatNoKernelRunsByItsDefinition) {
  const Graph original = parse_graph(kLoss);
  Graph graph = original;
  EXPECT_EQ(run_pass("write-out", graph).rewrites, 1);
  EXPECT_TRUE(std::ranges::none_of(graph.nodes(), [](const Node& node) { return schema_of(node.op).fused; }));
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), 1e-12);
}

TEST(WriteOut, LeavesWhatAKernelRuns) {
  expect_unchanged("write-out", R"(graph g {
      input %q: f32[1, 2, 3, 4]
      %1: f32[1, 2, 3, 4] = attention(%q, %q, %q) {scale = 0.5}
      output y = %1
    })");
  Target unknown = kCapableCpu;
  unknown.fusion = nullptr;
  expect_unchanged("write-out", kLoss, unknown);
}

}  // namespace
}  // namespace headroom
