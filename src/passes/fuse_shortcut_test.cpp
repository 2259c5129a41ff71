#include <fmt/format.h>
#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// What stands at the end of a residual block, and what goes around it.
struct Block {
  std::string_view dtype = "bf16";
  std::string_view layout = " channels_last";
  int channels = 16;                     // of what goes around it
  std::string_view pixels = "4, 3";      // of the block's results
  std::string_view activation = "none";  // of the convolution that adds
  bool shortcut_adds = false;            // rather than the block's own convolution
  std::string_view more = "";            // that reads what is added

  [[nodiscard]] std::string text() const {
    const std::string image = fmt::format("{}[2, 16, {}]", dtype, pixels);
    const std::string bias = fmt::format("{}[16]", dtype);
    const auto conv = [&](int result, std::string_view operands, std::string_view attributes, std::string_view path) {
      return fmt::format("  %{}: {}{} = conv2d({}) {{{}}} @ {}\n", result, image, layout, operands, attributes, path);
    };
    const std::string activated = fmt::format("activation = \"{}\"", activation);
    std::string text = fmt::format(
        "graph g {{\n  input %x: {0}[2, 8, 4, 3]\n  input %other: {0}[2, {1}, 4, 3]\n  param %w: {0}[16, 8, 3, 3]\n"
        "  param %b: {2}\n  param %s: {0}[16, {1}, 1, 1]\n  param %c: {2}\n"
        "  %0: {0}[2, 8, 4, 3]{3} = reshape(%x) {{shape = [2, 8, 4, 3]}}\n"
        "  %1: {0}[2, {1}, 4, 3]{3} = reshape(%other) {{shape = [2, {1}, 4, 3]}}\n",
        dtype, channels, bias, layout);
    if (shortcut_adds) {
      text += conv(2, "%0, %w, %b", "padding = [1, 1, 1, 1]", "conv2");
      text += conv(3, "%1, %s, %c, %2", activated, "conv_shortcut");
    } else {
      text += conv(2, "%1, %s, %c", "", "conv_shortcut");
      text += conv(3, "%0, %w, %b, %2", "padding = [1, 1, 1, 1], " + activated, "conv2");
    }
    text += fmt::format("  %4: {} = reshape(%3) {{shape = [2, 16, {}]}}\n{}  output y = %4\n}}\n", image, pixels, more);
    return text;
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

class FuseShortcut : public testing::TestWithParam<bool> {};

TEST_P(FuseShortcut, MakesOneOfBothConvolutions) {
  const Block block{.activation = "silu", .shortcut_adds = GetParam()};
  const Graph graph = fuse_shortcuts(block, 1);
  EXPECT_EQ(find_op(graph, Op::kConv2d), nullptr);
  const Node* fused = find_op(graph, Op::kConv2dShortcut);
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->path, "conv2");
  EXPECT_EQ(fused->attributes.get_text("activation"), "silu");
  EXPECT_EQ(fused->attributes.get_ints("padding"), (std::vector<std::int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(graph.type(fused->inputs[0]).shape, (Shape{2, 8, 4, 3}));
  EXPECT_EQ(graph.type(fused->inputs[2]), (TensorType{.dtype = DType::kF32, .shape = {16}}));
  EXPECT_EQ(graph.type(fused->inputs[3]).shape, (Shape{2, 16, 4, 3}));
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(parse_graph(block.text()), 7)), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(WhicheverAdds, FuseShortcut, testing::Bool());

TEST(FuseShortcutWhere, LeavesWhatNoKernelTakes) {
  fuse_shortcuts({.dtype = "f32"}, 0);
  fuse_shortcuts({.layout = ""}, 0);
  fuse_shortcuts({.channels = 12}, 0);
  fuse_shortcuts({}, 0, {.device = DeviceKind::kCuda, .compute_capability = 80, .has_compiler = true});
  fuse_shortcuts({}, 0, kCapableCpu);
}

TEST(FuseShortcutWhere, LeavesASumThatIsReadElsewhere) {
  fuse_shortcuts({.more = "  %5: bf16[2, 16, 4, 3] = reshape(%2) {shape = [2, 16, 4, 3]}\n  output z = %5\n"}, 0);
}

}  // namespace
}  // namespace headroom
