#include <fmt/format.h>
#include <gmock/gmock.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(ChannelsLastPass, ConvertsWhatLiesBetweenConvolutionsAndTurnsAroundAtTheEdges) {
  expect_rewrite("channels-last", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      param %w: f32[3, 2, 3, 3]
      param %v: f32[2, 3, 1, 1]
    + %4: f32[1, 2, 4, 4] channels_last = reshape(%x) {shape = [1, 2, 4, 4]} @ a
    - %0: f32[1, 3, 4, 4] = conv2d(%x, %w) {padding = [1, 1, 1, 1]} @ a
    + %0: f32[1, 3, 4, 4] channels_last = conv2d(%4, %w) {padding = [1, 1, 1, 1]} @ a
    - %1: f32[1, 3, 4, 4] = silu(%0) @ act
    + %1: f32[1, 3, 4, 4] channels_last = silu(%0) @ act
    - %2: f32[1, 2, 4, 4] = conv2d(%1, %v) @ b
    + %2: f32[1, 2, 4, 4] channels_last = conv2d(%1, %v) @ b
    - %3: f32[1, 2, 4, 4] = add(%x, %2) @ sum
    + %5: f32[1, 2, 4, 4] channels_last = add(%4, %2) @ sum
    + %3: f32[1, 2, 4, 4] = reshape(%5) {shape = [1, 2, 4, 4]} @ sum
      output y = %3
    })",
                 4);
}

TEST(ChannelsLastPass, LeavesViewsBroadcastOperandsAndOpsOfOtherShapesAsTheyAre) {
  // Pixels become tokens by a view; a per-channel bias is broadcast in any layout.
  expect_rewrite("channels-last", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      param %w: f32[3, 2, 1, 1]
      param %shift: f32[1, 3, 1, 1]
    + %5: f32[1, 2, 4, 4] channels_last = reshape(%x) {shape = [1, 2, 4, 4]} @ a
    - %0: f32[1, 3, 4, 4] = conv2d(%x, %w) @ a
    + %0: f32[1, 3, 4, 4] channels_last = conv2d(%5, %w) @ a
    - %1: f32[1, 3, 4, 4] = add(%0, %shift) @ b
    + %1: f32[1, 3, 4, 4] channels_last = add(%0, %shift) @ b
      %2: f32[1, 3, 16] = reshape(%1) {shape = [1, 3, 16]} @ c
      %3: f32[1, 16, 3] = transpose(%2) {perm = [0, 2, 1]} @ c
      %4: f32[1, 16, 3] = softmax(%3) @ c
      output y = %4
    })",
                 2);
}

TEST(ChannelsLastPass, StatesAndWhatARegionReturnsStayRowMajor) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[1, 2, 4, 4]
      param %w: f32[2, 2, 1, 1]
      state %s: f32[1, 2, 4, 4]
      loop 3 %i {
        %0: f32[1, 2, 4, 4] = conv2d(%s, %w) @ a
        %1: f32[1, 2, 4, 4] = add(%0, %x) @ b
        next %s = %1
        yield %2: f32[1, 2, 4, 4] = %1
      }
      output y = %2
    })");
  const Graph before = graph;
  EXPECT_EQ(run_pass("channels-last", graph).rewrites, 2);
  for (std::size_t v = 0; v < graph.value_count(); ++v)
    if (graph.value(ValueId(v)).kind != ValueKind::kResult) {
      EXPECT_EQ(graph.type(ValueId(v)).layout, Layout::kRowMajor) << v;
    }
  EXPECT_EQ(distance(interpret_on_random(graph, 3), interpret_on_random(before, 3)), 0);
}

TEST(ChannelsLastPass, LeavesAConvolutionWhoseResidualIsAWeight) {
  expect_unchanged("channels-last", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      param %w: f32[3, 2, 1, 1]
      param %b: f32[3]
      param %residual: f32[1, 3, 4, 4]
      %0: f32[1, 3, 4, 4] = conv2d(%x, %w, %b, %residual) {epilogue = add(sum, e0)} @ a
      output y = %0
    })");
}

/// Without a bias the residual is the third operand, where others have a vector.
TEST(ChannelsLastPass, ConvertsTheOperandsOfAnEpilogue) {
  expect_rewrite("channels-last", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      input %r: f32[1, 3, 4, 4]
      param %w: f32[3, 2, 1, 1]
    + %1: f32[1, 2, 4, 4] channels_last = reshape(%x) {shape = [1, 2, 4, 4]} @ a
    + %2: f32[1, 3, 4, 4] channels_last = reshape(%r) {shape = [1, 3, 4, 4]} @ a
    - %0: f32[1, 3, 4, 4] = conv2d(%x, %w, %r) {epilogue = add(sum, e0)} @ a
    + %3: f32[1, 3, 4, 4] channels_last = conv2d(%1, %w, %2) {epilogue = add(sum, e0)} @ a
    + %0: f32[1, 3, 4, 4] = reshape(%3) {shape = [1, 3, 4, 4]} @ a
      output y = %0
    })");
}

TEST(ChannelsLastPass, DeclinesWhereRowMajorImagesAreFaster) {
  // f16: vectors of 8. Two convolutions, of which the second has most of the FLOPs.
  const auto graph_of = [](int channels) {
    return parse_graph(fmt::format(R"(graph g {{
      input %x: f16[1, 3, 4, 4]
      param %w: f16[{0}, 3, 1, 1]
      param %v: f16[{0}, {0}, 3, 3]
      %0: f16[1, {0}, 4, 4] = conv2d(%x, %w)
      %1: f16[1, {0}, 2, 2] = conv2d(%0, %v)
      output y = %1
    }})",
                                   channels));
  };
  Graph sixty = graph_of(60), sixty_four = graph_of(64), aligned = graph_of(60), on_a_cpu = graph_of(60);
  EXPECT_THAT(run_pass("channels-last", sixty, kGeneratingGpu).declined.value_or(""),
              testing::HasSubstr("do not fill the vectors"));
  EXPECT_EQ(run_pass("channels-last", sixty_four, kGeneratingGpu).rewrites, 2);
  run_pass("align", aligned, kGeneratingGpu);
  EXPECT_GE(run_pass("channels-last", aligned, kGeneratingGpu).rewrites, 2);
  EXPECT_EQ(run_pass("channels-last", on_a_cpu).rewrites, 2);
  Graph without_rules = graph_of(60);
  EXPECT_EQ(run_pass("channels-last", without_rules, Target{}).rewrites, 2);
}

TEST(ChannelsLastPass, DeclinesWithoutAConvolution) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[1, 2, 4, 4]
      %0: f32[1, 2, 4, 4] = silu(%x)
      output y = %0
    })");
  EXPECT_EQ(run_pass("channels-last", graph).declined, "the graph has no convolution");
}

TEST(ChannelsLastPass, TurnsAWeightThatAnotherConvolutionMakes) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[1, 2, 4, 4]
      param %w: f32[2, 2, 1, 1]
      %0: f32[1, 2, 4, 4] = conv2d(%x, %w)
      %1: f32[1, 1, 1, 1] = conv2d(%x, %0)
      %2: f32[1, 2, 4, 4] = mul(%0, %1)
      output y = %2
    })");
  const Graph before = graph;
  EXPECT_EQ(run_pass("channels-last", graph).rewrites, 3);
  EXPECT_EQ(graph.type(graph.nodes()[3].inputs[1]).layout, Layout::kRowMajor);
  EXPECT_EQ(distance(interpret_on_random(graph, 3), interpret_on_random(before, 3)), 0);
}

TEST(ChannelsLastPass, LeavesWhatIsChannelsLastAlready) {
  expect_rewrite("channels-last", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      param %w: f32[2, 2, 1, 1]
      %0: f32[1, 2, 4, 4] channels_last = reshape(%x) {shape = [1, 2, 4, 4]} @ a
      %1: f32[1, 2, 4, 4] channels_last = conv2d(%0, %w) @ a
    + %7: f32[1, 2, 4, 4] channels_last = reshape(%x) {shape = [1, 2, 4, 4]} @ b
    - %2: f32[1, 2, 4, 4] = conv2d(%x, %w) @ b
    + %8: f32[1, 2, 4, 4] channels_last = conv2d(%7, %w) @ b
    + %2: f32[1, 2, 4, 4] = reshape(%8) {shape = [1, 2, 4, 4]} @ b
      %3: f32[1, 2, 4, 4] channels_last = add(%1, %2) @ c
      loop 2 %i {
        %4: f32[1, 2, 4, 4] channels_last = silu(%3) @ d
        yield %5: f32[1, 2, 4, 4] channels_last = %4
      }
      %6: f32[32] = reshape(%5) {shape = [32]} @ e
      output y = %6
    })",
                 1);
}

}  // namespace
}  // namespace headroom
