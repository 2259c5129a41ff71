#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/expand.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// Runs the pass; expects that many rewrites and the same results, up to roundings that fusion avoids.
Graph fuse(std::string_view text, int rewrites, double tolerance = 1e-12) {
  const Graph original = parse_graph(text);
  Graph graph = original;
  EXPECT_EQ(run_pass("fuse-group-norm", graph, kGeneratingGpu).rewrites, rewrites);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), tolerance);
  return graph;
}

std::vector<Op> ops_of(const Graph& graph) {
  std::vector<Op> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op);
  return ops;
}

/// A resnet of a U-Net's decoder: the skip connection is concatenated with the lower level's image, and the step is
/// added per channel.
constexpr std::string_view kResnet = R"(graph g {
  input %x: f16[2, 16, 3, 5]
  input %skip: f16[2, 8, 3, 5]
  input %time: f16[2, 16, 1, 1]
  param %gain: f32[24]
  param %offset: f32[24]
  param %w1: f16[16, 24, 3, 3]
  param %b: f16[16]
  param %gain2: f16[16]
  param %ws: f16[16, 24, 1, 1]
  %0: f16[2, 16, 3, 5] channels_last = reshape(%x) {shape = [2, 16, 3, 5]}
  %1: f16[2, 8, 3, 5] channels_last = reshape(%skip) {shape = [2, 8, 3, 5]}
  %2: f16[2, 24, 3, 5] channels_last = concat(%0, %1) {axis = 1} @ up
  %3: f16[2, 16, 3, 5] channels_last = conv2d(%2, %ws, %b) @ conv_shortcut
  %4: f16[2, 24, 3, 5] channels_last = group_norm(%2, %gain, %offset) {epilogue = silu(sum), eps = 1e-05, groups = 3} @ norm1
  %5: f16[2, 16, 3, 5] channels_last = conv2d(%4, %w1, %b) {padding = [1, 1, 1, 1]} @ conv1
  %6: f16[2, 16, 3, 5] channels_last = add(%5, %time) @ add
  %7: f16[2, 16, 3, 5] channels_last = group_norm(%6, %gain2) {epilogue = silu(sum), eps = 1e-05, groups = 4} @ norm2
  %8: f16[2, 16, 3, 5] channels_last = add(%7, %3) @ sum
  %9: f16[2, 16, 3, 5] = reshape(%8) {shape = [2, 16, 3, 5]}
  output y = %9
})";

TEST(FuseGroupNorm, TakesInAConcatenationAndANumberForEachChannel) {
  const Graph graph = fuse(kResnet, 2, 2e-3);
  EXPECT_THAT(ops_of(graph), testing::ElementsAre(Op::kReshape, Op::kReshape, Op::kFused, Op::kConv2d, Op::kConv2d,
                                                  Op::kFused, Op::kAdd, Op::kReshape));
  const Node &joined = graph.nodes()[2], &shifted = graph.nodes()[5];
  EXPECT_EQ(joined.path, "norm1");
  EXPECT_EQ(canonical_text(body_of(joined.attributes)), R"(graph concat_group_norm {
  input %x0: f16[2, 16, 3, 5] channels_last
  input %x1: f16[2, 8, 3, 5] channels_last
  input %x2: f32[24]
  input %x3: f32[24]
  %0: f32[2, 16, 3, 5] channels_last = cast(%x0) {dtype = f32}
  %1: f32[2, 8, 3, 5] channels_last = cast(%x1) {dtype = f32}
  %2: f32[2, 24, 3, 5] channels_last = concat(%0, %1) {axis = 1}
  %3: f32[2, 24, 3, 5] channels_last = group_norm(%2, %x2, %x3) {groups = 3, eps = 1e-05, epilogue = silu(sum), channels = 0}
  %4: f16[2, 24, 3, 5] channels_last = cast(%3) {dtype = f16}
  %5: f16[2, 24, 3, 5] channels_last = cast(%2) {dtype = f16}
  output y0 = %4
  output y1 = %5
}
)") << "the shortcut reads what is joined, too";
  EXPECT_EQ(graph.nodes()[3].inputs[0], joined.results[1]);
  EXPECT_EQ(body_of(shifted.attributes).name(), "add_group_norm");
  EXPECT_EQ(shifted.inputs.size(), 3U);
}

TEST(FuseGroupNorm, MakesNothingOfAConcatenationThatItAloneReads) {
  const Graph graph = fuse(R"(graph g {
  input %a: f32[1, 8, 2, 2]
  input %b: f32[1, 4, 2, 2]
  param %gain: f32[12]
  %0: f32[1, 8, 2, 2] channels_last = reshape(%a) {shape = [1, 8, 2, 2]}
  %1: f32[1, 4, 2, 2] channels_last = reshape(%b) {shape = [1, 4, 2, 2]}
  %2: f32[1, 12, 2, 2] channels_last = concat(%0, %1) {axis = 1}
  %3: f32[1, 12, 2, 2] channels_last = group_norm(%2, %gain) {eps = 1e-05, groups = 3}
  %4: f32[1, 12, 2, 2] = reshape(%3) {shape = [1, 12, 2, 2]}
  output y = %4
})",
                           1);
  const auto fused = std::ranges::find(graph.nodes(), Op::kFused, &Node::op);
  ASSERT_NE(fused, graph.nodes().end());
  EXPECT_EQ(fused->results.size(), 1U);
}

/// As in resnets whose step scales and shifts the normed image.
std::string modulated(std::string_view last) {
  return fmt::format(R"(graph g {{
    input %x: f16[2, 16, 2, 3]
    input %scale: f16[2, 16, 1, 1]
    input %offset: f16[2, 16, 1, 1]
    param %gain: f16[16]
    %0: f16[2, 16, 2, 3] channels_last = reshape(%x) {{shape = [2, 16, 2, 3]}}
    %1: f16[2, 16, 2, 3] channels_last = group_norm(%0, %gain) {{eps = 1e-05, groups = 2}} @ norm2
    %2: f16[2, 16, 1, 1] = add_scalar(%scale) {{value = 1}}
    %3: f16[2, 16, 2, 3] channels_last = mul(%1, %2)
    %4: f16[2, 16, 2, 3] channels_last = add(%3, %offset)
    %5: f16[2, 16, 2, 3] channels_last = {}
    %6: f16[2, 16, 2, 3] = reshape(%5) {{shape = [2, 16, 2, 3]}}
    output y = %6
  }})",
                     last);
}

TEST(FuseGroupNorm, TakesInWhatScalesAndOffsetsEachChannel) {
  for (const char* last : {"silu(%4)", "mul(%4, %0)"}) {
    const Graph graph = fuse(modulated(last), 1, 2e-3);
    const auto fused = std::ranges::find(graph.nodes(), Op::kFused, &Node::op);
    ASSERT_NE(fused, graph.nodes().end());
    EXPECT_EQ(body_of(fused->attributes).name(), "group_norm_mul_add");
    EXPECT_EQ(fused->inputs.size(), 4U);
    EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kAddScalar, &Node::op), 0);
    EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kSilu, &Node::op), 0);
  }
}

void expect_nothing(std::string_view text) { fuse(text, 0); }

TEST(FuseGroupNorm, LeavesWhatNoKernelRuns) {
  // Row-major images, channels that do not fill packs, groups of which three share one, and a concatenation of rows.
  expect_nothing(R"(graph g {
    input %x: f16[1, 16, 2, 2]
    input %time: f16[1, 16, 1, 1]
    %0: f16[1, 16, 2, 2] = add(%x, %time)
    %1: f16[1, 16, 2, 2] = group_norm(%0) {eps = 1e-05, groups = 2}
    output y = %1
  })");
  for (const std::string_view channels_and_groups : {"12 2", "24 8"}) {
    const std::string channels(channels_and_groups.substr(0, 2)), groups(channels_and_groups.substr(3));
    expect_nothing(fmt::format(R"(graph g {{
      input %x: f16[1, {0}, 2, 2]
      input %time: f16[1, {0}, 1, 1]
      %0: f16[1, {0}, 2, 2] channels_last = reshape(%x) {{shape = [1, {0}, 2, 2]}}
      %1: f16[1, {0}, 2, 2] channels_last = add(%0, %time)
      %2: f16[1, {0}, 2, 2] channels_last = group_norm(%1) {{eps = 1e-05, groups = {1}}}
      %3: f16[1, {0}, 2, 2] = reshape(%2) {{shape = [1, {0}, 2, 2]}}
      output y = %3
    }})",
                               channels, groups));
  }
  expect_nothing(R"(graph g {
    input %a: f16[1, 16, 2, 2]
    input %b: f16[1, 16, 1, 2]
    %0: f16[1, 16, 2, 2] channels_last = reshape(%a) {shape = [1, 16, 2, 2]}
    %1: f16[1, 16, 1, 2] channels_last = reshape(%b) {shape = [1, 16, 1, 2]}
    %2: f16[1, 16, 3, 2] channels_last = concat(%0, %1) {axis = 2}
    %3: f16[1, 16, 3, 2] channels_last = group_norm(%2) {eps = 1e-05, groups = 2}
    %4: f16[1, 16, 3, 2] = reshape(%3) {shape = [1, 16, 3, 2]}
    output y = %4
  })");
}

/// A sum with a per-channel vector is not a second result.
TEST(FuseGroupNorm, LeavesSumsThatOthersReadAsWell) {
  expect_nothing(R"(graph g {
    input %a: f16[1, 16, 2, 2]
    input %t: f16[1, 16, 1, 1]
    %0: f16[1, 16, 2, 2] channels_last = reshape(%a) {shape = [1, 16, 2, 2]}
    %1: f16[1, 16, 2, 2] channels_last = add(%0, %t)
    %2: f16[1, 16, 2, 2] channels_last = group_norm(%1) {eps = 1e-05, groups = 2}
    %3: f16[1, 16, 2, 2] channels_last = mul(%1, %2)
    %4: f16[1, 16, 2, 2] = reshape(%3) {shape = [1, 16, 2, 2]}
    output y = %4
  })");
}

}  // namespace
}  // namespace headroom
