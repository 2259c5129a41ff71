#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// A convolution that keeps the size of its image, except for stride and padding.
struct Conv {
  int channels = 8;  // of its input
  std::array<int, 2> filter = {3, 3};
  int stride = 1;
  int dilation = 1;
  int groups = 1;
  int rim = 0;  // padding beyond that which keeps the size

  [[nodiscard]] std::string image(int height, int width) const {
    return fmt::format("[2, {}, {}, {}]", channels, stride * height - 2 * rim, stride * width - 2 * rim);
  }
  [[nodiscard]] std::string weight(int made) const {
    return fmt::format("[{}, {}, {}, {}]", made, channels / groups, filter[0], filter[1]);
  }
  [[nodiscard]] std::string attributes() const {
    const auto beyond = [&](int taps) { return dilation * (taps - 1) / 2 + rim; };
    return fmt::format("stride = [{0}, {0}], padding = [{1}, {2}, {1}, {2}], dilation = [{3}, {3}], groups = {4}",
                       stride, beyond(filter[0]), beyond(filter[1]), dilation, groups);
  }
};

/// The end of a residual block, and its shortcut.
struct Block {
  std::string_view dtype = "bf16";
  std::string_view layout = " channels_last";
  int made = 16;  // channels of the block's results
  int height = 4;
  int width = 3;
  Conv conv = {};
  Conv shortcut = {.channels = 16, .filter = {1, 1}};
  bool shortcut_adds = false;                  // instead of the block's own convolution
  std::string_view epilogue = "add(sum, e0)";  // of the convolution that adds
  std::string_view added_epilogue = "sum";     // of the convolution that is added
  bool is_added_with_bias = true;
  std::string_view more = "";  // that reads the added image

  [[nodiscard]] std::string text() const {
    const std::string result = fmt::format("{}[2, {}, {}, {}]", dtype, made, height, width);
    std::string text = fmt::format(
        "graph g {{\n  input %x: {0}{1}\n  input %other: {0}{2}\n  param %w: {0}{3}\n  param %s: {0}{4}\n"
        "  param %b2: {0}[{5}]\n  param %b3: {0}[{5}]\n"
        "  %0: {0}{1}{6} = reshape(%x) {{shape = {1}}}\n  %1: {0}{2}{6} = reshape(%other) {{shape = {2}}}\n",
        dtype, conv.image(height, width), shortcut.image(height, width), conv.weight(made), shortcut.weight(made), made,
        layout);
    const auto convolve = [&](int number, bool is_shortcut, std::string_view operands, std::string_view ended) {
      text += fmt::format("  %{}: {}{} = conv2d({}{}) {{{}, epilogue = {}}} @ {}\n", number, result, layout,
                          is_shortcut ? "%1, %s" : "%0, %w", operands, (is_shortcut ? shortcut : conv).attributes(),
                          ended, is_shortcut ? "conv_shortcut" : "conv2");
    };
    convolve(2, !shortcut_adds, is_added_with_bias ? ", %b2" : "", added_epilogue);
    convolve(3, shortcut_adds, ", %b3, %2", epilogue);
    return text + fmt::format("  %4: {} = reshape(%3) {{shape = [2, {}, {}, {}]}}\n{}  output y = %4\n}}\n", result,
                              made, height, width, more);
  }
};

Graph fuse_shortcuts(const Block& block, int rewrites, const Target& target = kGeneratingGpu) {
  const Graph original = parse_graph(block.text());
  Graph graph = original;
  EXPECT_EQ(run_pass("fuse-shortcut", graph, target).rewrites, rewrites) << block.text();
  return graph;
}

const Node* find_op(const Graph& graph, Op op) {
  const auto found = std::ranges::find(graph.nodes(), op, &Node::op);
  return found == graph.nodes().end() ? nullptr : &*found;
}

class FuseShortcut : public testing::TestWithParam<bool> {
 protected:
  static void expect(int rewrites, Block block, const Target& target = kGeneratingGpu) {
    block.shortcut_adds = GetParam();
    fuse_shortcuts(block, rewrites, target);
  }
};

TEST_P(FuseShortcut, MakesOneOfBothConvolutions) {
  const Block block{.shortcut_adds = GetParam(), .epilogue = "silu(add(e0, sum))"};
  const Graph graph = fuse_shortcuts(block, 1);
  EXPECT_EQ(find_op(graph, Op::kConv2d), nullptr);
  const Node* fused = find_op(graph, Op::kConv2dShortcut);
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->path, "conv2");
  EXPECT_EQ(fused->attributes[attr::kEpilogue], Epilogue(Activation::kSilu));
  EXPECT_EQ(fused->attributes[attr::kPadding], (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(graph.type(fused->inputs[0]).shape, (Shape{2, 8, 4, 3}));
  EXPECT_EQ(graph.type(fused->inputs[2]), (TensorType{.dtype = DType::kF32, .shape = {16}}));
  EXPECT_EQ(graph.type(fused->inputs[3]).shape, (Shape{2, 16, 4, 3}));
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(parse_graph(block.text()), 7)), 1e-2);
}

TEST_P(FuseShortcut, LeavesWhatNoKernelTakes) {
  expect(0, {.dtype = "f32"});
  expect(0, {.layout = ""});
  expect(0, {.made = 12});
  expect(0, {.conv = {.channels = 12}});
  expect(0, {.shortcut = {.channels = 12, .filter = {1, 1}}});
  expect(0, {}, {.device = DeviceKind::kCuda, .compute_capability = 80, .has_compiler = true});
  expect(0, {}, kCapableCpu);
}

TEST_P(FuseShortcut, LeavesConvolutionsThatNoKernelTakes) {
  expect(0, {.conv = {.stride = 2}});
  expect(0, {.shortcut = {.channels = 16, .filter = {1, 1}, .stride = 2}});
  expect(0, {.conv = {.dilation = 2}});
  expect(0, {.conv = {.groups = 2}});
  expect(0, {.shortcut = {.channels = 16, .filter = {1, 1}, .groups = 2}});
  expect(1, {.conv = {.filter = {7, 7}}});
  expect(0, {.conv = {.filter = {9, 1}}});
  expect(0, {.conv = {.filter = {1, 9}}});
}

TEST_P(FuseShortcut, LeavesLargeImages) {
  expect(1, {.height = 1024, .width = 1024});
  expect(0, {.height = 1024, .width = 1025});
  expect(0, {.height = 1024, .width = 1023, .shortcut = {.channels = 24, .filter = {1, 1}}});
}

TEST_P(FuseShortcut, TakesOneOfSinglePixelsAndOneOfMore) {
  expect(0, {.conv = {.filter = {1, 1}}});
  expect(0, {.shortcut = {.channels = 16}});
  expect(0, {.shortcut = {.channels = 16, .filter = {1, 1}, .rim = 1}});
  expect(1, {.conv = {.filter = {3, 1}}});
}

TEST_P(FuseShortcut, LeavesOtherSums) {
  expect(0, {.added_epilogue = "silu(sum)"});
  expect(0, {.epilogue = "mul(sum, e0)"});
  expect(0, {.is_added_with_bias = false});
  expect(0, {.more = "  %5: bf16[2, 16, 4, 3] = reshape(%2) {shape = [2, 16, 4, 3]}\n  output z = %5\n"});
}

INSTANTIATE_TEST_SUITE_P(WhicheverAdds, FuseShortcut, testing::Bool());

}  // namespace
}  // namespace headroom
