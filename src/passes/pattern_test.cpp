#include "passes/pattern.hpp"

#include <gtest/gtest.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// The value bound to "x" if the pattern matches the last node of `text` and `fits`, or kNoValue.
ValueId find_x(
    const std::string& text, const Pattern& pattern,
    const std::function<bool(const Match&)>& fits = [](const Match&) { return true; }) {
  Graph graph = parse_graph(text);
  const ValueId last = graph.nodes().back().results[0];
  ValueId x = kNoValue;
  rewrite_each(graph, [&](Rewriter& r, const Node& node) {
    if (node.results[0] != last) return false;
    if (const auto match = find(r, node, pattern, fits)) x = (*match)["x"];
    return false;
  });
  return x;
}

std::string with_inputs(const std::string& nodes) {
  return "graph g {\n  input %a: f32[2]\n  input %b: f32[2]\n  input %c: f32[2]\n" + nodes + "  output y = %9\n}";
}

const std::string kSum =
    with_inputs("  %1: f32[2] = relu(%a)\n  %2: f32[2] = mul(%b, %1)\n  %9: f32[2] = add(%2, %c)\n");

TEST(Pattern, FindsOperandsInEitherOrder) {
  const Pattern relu = op(Op::kRelu, {any("x")});
  EXPECT_EQ(find_x(kSum, op(Op::kAdd, {any("c"), op(Op::kMul, {relu, any("b")})})), ValueId{0});
  EXPECT_EQ(find_x(kSum, op(Op::kAdd, {op(Op::kMul, {any("b"), relu}), any("c")})), ValueId{0});
  EXPECT_EQ(find_x(kSum, op(Op::kSub, {any("x"), any("c")})), kNoValue);
  EXPECT_EQ(find_x(kSum, op(Op::kAdd, {relu, any("c")})), kNoValue);
}

TEST(Pattern, GoesOnWithAnotherOrderWhereTheFirstDoesNotFit) {
  const Pattern product = op(Op::kAdd, {op(Op::kMul, {any("x"), any("y")}), any("c")});
  EXPECT_EQ(find_x(kSum, product, [](const Match& m) { return m["x"] != ValueId{1}; }), ValueId{3});
  EXPECT_EQ(find_x(kSum, product, [](const Match& m) { return m["x"] == ValueId{1}; }), ValueId{1});
  EXPECT_EQ(find_x(kSum, product, [](const Match&) { return false; }), kNoValue);
}

TEST(Pattern, OneNameIsOneValue) {
  const Pattern square = op(Op::kMul, {any("x"), any("x")});
  EXPECT_EQ(find_x(with_inputs("  %9: f32[2] = mul(%b, %b)\n"), square), ValueId{1});
  EXPECT_EQ(find_x(with_inputs("  %9: f32[2] = mul(%b, %c)\n"), square), kNoValue);
}

TEST(Pattern, LeavesWhatOthersReadUnlessItMayBeShared) {
  const std::string text =
      with_inputs("  %1: f32[2] = relu(%a)\n  %2: f32[2] = silu(%1)\n  %9: f32[2] = mul(%1, %2)\n");
  const Pattern relu = op(Op::kRelu, {any("x")});
  EXPECT_EQ(find_x(text, op(Op::kMul, {relu, any("y")})), kNoValue);
  EXPECT_EQ(find_x(text, op(Op::kMul, {relu.shared(), any("y")})), ValueId{0});
}

}  // namespace
}  // namespace headroom
