#include "passes/lift.hpp"

#include <fmt/format.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// A loop of 4 steps. Its `body` makes %9 of `shape` from constants and from %1: f32[2, 3] and %2: f32[3], which
/// change with the step, and adds it to the state.
Graph loop_of(std::string_view body, std::string_view shape) {
  Graph graph = parse_graph(fmt::format(R"(graph g {{
      input %table: f32[4, 2, 3]
      input %vectors: f32[4, 3]
      input %times: f32[4, 2]
      input %constant: f32[2, 3]
      input %vector: f32[3]
      input %ids: f32[2, 1]
      input %heads: f32[4, 2, 4]
      param %w: f32[5, 3]
      param %bias: f32[5]
      param %weight: f32[3]
      state %s: f32{1}
      loop 4 %step {{
        %1: f32[2, 3] = row(%table, %step)
        %2: f32[3] = row(%vectors, %step)
        {0}
        %10: f32{1} = add(%s, %9)
        next %s = %10
      }}
    }})",
                                        body, shape));
  run_pass("dead-code", graph);  // the rows that the body does not read
  return graph;
}

int nodes_in_loop(const Graph& graph) {
  return static_cast<int>(std::ranges::count_if(graph.nodes(), [](const Node& node) { return node.region != 0; }));
}

struct Case {
  const char* name;
  const char* body;
  const char* shape;
};
void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

class Lifts : public testing::TestWithParam<Case> {};

TEST_P(Lifts, LeavingTheLoopARow) {
  const Graph plain = loop_of(GetParam().body, GetParam().shape);
  Graph graph = plain;
  EXPECT_GT(run_pass("hoist", graph).rewrites, 0);
  EXPECT_EQ(nodes_in_loop(graph), 2) << canonical_text(graph);  // the row, and the sum with the state
  EXPECT_LE(distance(interpret_on_random(graph, 3), interpret_on_random(plain, 3)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Op, Lifts,
    testing::Values(
        Case{"Add", "%9: f32[2, 3] = add(%1, %1)", "[2, 3]"},
        Case{"AddOfAConstant", "%9: f32[2, 3] = add(%constant, %1)", "[2, 3]"},
        Case{"SubOfASmallConstant", "%9: f32[2, 3] = sub(%1, %vector)", "[2, 3]"},
        Case{"MulOfFewerAxes", "%9: f32[2, 3] = mul(%2, %1)", "[2, 3]"},
        Case{"LinearWithEpilogue",
             "%8: f32[2, 5] = linear(%1, %w)\n"
             "%9: f32[2, 5] = linear(%1, %w, %8, %bias) {epilogue = add(e0, mul(e1, sum))}",
             "[2, 5]"},
        Case{"AddScalar", "%9: f32[2, 3] = add_scalar(%1) {value = 2}", "[2, 3]"},
        Case{"MulScalar", "%9: f32[2, 3] = mul_scalar(%1) {value = 2}", "[2, 3]"},
        Case{"Relu", "%9: f32[2, 3] = relu(%1)", "[2, 3]"}, Case{"Silu", "%9: f32[3] = silu(%2)", "[3]"},
        Case{"Gelu", "%9: f32[2, 3] = gelu_erf(%1)", "[2, 3]"},
        Case{"Cast", "%3: f64[2, 3] = cast(%1) {dtype = f64}\n %9: f32[2, 3] = cast(%3) {dtype = f32}", "[2, 3]"},
        Case{"Linear", "%9: f32[2, 5] = linear(%1, %w, %bias) {epilogue = silu(sum)}", "[2, 5]"},
        Case{"LinearOfAVector", "%9: f32[5] = linear(%2, %w) {epilogue = sum}", "[5]"},
        Case{"Matmul", "%9: f32[2, 2] = matmul(%1, %1) {transpose_b = 1}", "[2, 2]"},
        Case{"Softmax", "%9: f32[2, 3] = softmax(%1)", "[2, 3]"},
        Case{"LayerNorm", "%9: f32[2, 3] = layer_norm(%1) {eps = 1e-06}", "[2, 3]"},
        Case{"RmsNorm", "%9: f32[2, 3] = rms_norm(%1, %weight) {eps = 1e-06}", "[2, 3]"},
        Case{"Mean", "%9: f32[2] = mean(%1) {axes = [1]}", "[2]"},
        Case{"Amax", "%9: f32[3] = amax(%1) {axes = [0]}", "[3]"},
        Case{"Argmax", "%3: i32[3] = argmax(%1) {axis = 0}\n %9: f32[3] = cast(%3) {dtype = f32}", "[3]"},
        Case{"Clamp", "%9: f32[2, 3] = clamp(%1) {low = -1, high = 1}", "[2, 3]"},
        Case{"Select", "%3: bool[2, 3] = less(%1, %constant)\n %9: f32[2, 3] = select(%3, %1, %constant)", "[2, 3]"},
        Case{"Rope",
             "%3: f32[2, 4] = row(%heads, %step)\n"
             "%4: f32[2, 2], %5: f32[2, 2] = rope_table(%ids) {axes = [4], theta = 10000}\n"
             "%9: f32[2, 4] = rope(%3, %4, %5)",
             "[2, 4]"},
        Case{"TimestepEmbedding",
             "%3: f32[2] = row(%times, %step)\n"
             "%9: f32[2, 8] = timestep_embedding(%3) {dim = 8, scale = 1000, max_period = 10000}",
             "[2, 8]"},
        Case{"Reshape", "%3: f32[3, 2] = reshape(%1) {shape = [3, 2]}\n %9: f32[3, 2] = relu(%3)", "[3, 2]"},
        Case{"Transpose", "%3: f32[3, 2] = transpose(%1) {perm = [1, 0]}\n %9: f32[3, 2] = relu(%3)", "[3, 2]"},
        Case{"Concat", "%9: f32[2, 6] = concat(%1, %1) {axis = 1}", "[2, 6]"},
        Case{"Slice", "%3: f32[2, 1] = slice(%1) {axis = 1, start = 2, size = 1}\n %9: f32[2, 1] = relu(%3)",
             "[2, 1]"}),
    [](const auto& parameter) { return parameter.param.name; });

class DoesNotLift : public testing::TestWithParam<Case> {};

TEST_P(DoesNotLift, WhatStaysInTheLoop) {
  const Graph plain = loop_of(GetParam().body, GetParam().shape);
  Graph graph = plain;
  EXPECT_EQ(run_pass("hoist", graph).rewrites, 0);
  EXPECT_EQ(canonical_text(graph), canonical_text(plain));
}

INSTANTIATE_TEST_SUITE_P(
    Op, DoesNotLift,
    testing::Values(Case{"AConstantLargerThanTheStepsValue", "%9: f32[2, 3] = mul(%constant, %2)", "[2, 3]"},
                    Case{"AConstantPart", "%9: f32[2, 6] = concat(%1, %constant) {axis = 1}", "[2, 6]"},
                    Case{"AStepsWeight", "%9: f32[2, 2] = linear(%constant, %1) {epilogue = sum}", "[2, 2]"},
                    Case{"OneFactorOfAMatmul", "%9: f32[2, 2] = matmul(%1, %constant) {transpose_b = 1}", "[2, 2]"},
                    Case{"AnOpWithoutARule", "%9: f32[2, 3] = group_norm(%1) {groups = 1, eps = 1e-06}", "[2, 3]"},
                    Case{"WhatDependsOnTheState", "%9: f32[2, 3] = mul(%1, %s)", "[2, 3]"},
                    Case{"ALastView", "%9: f32[3, 2] = transpose(%1) {perm = [1, 0]}", "[3, 2]"}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(Lift, RefusesMoreAxesThanAShapeHas) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[3, 1, 1, 1, 1, 1, 1, 1]
      state %s: f32[1, 1, 1, 1, 1, 1, 1]
      loop 3 %step {
        %1: f32[1, 1, 1, 1, 1, 1, 1] = row(%x, %step)
        %2: f32[1, 1, 1, 1, 1, 1, 1, 1] = reshape(%1) {shape = [1, 1, 1, 1, 1, 1, 1, 1]}
        %3: f32[1, 1, 1, 1, 1, 1, 1, 1] = relu(%2)
        %4: f32[1, 1, 1, 1, 1, 1, 1] = reshape(%3) {shape = [1, 1, 1, 1, 1, 1, 1]}
        %5: f32[1, 1, 1, 1, 1, 1, 1] = add(%s, %4)
        next %s = %5
      }
    })");
  EXPECT_EQ(run_pass("hoist", graph).rewrites, 0);
}

}  // namespace
}  // namespace headroom
