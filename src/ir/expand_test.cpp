#include "ir/expand.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "ir/interpreter.hpp"
#include "ir/test_util.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"

namespace headroom {
namespace {

using testing::DoubleNear;
using testing::Pointwise;
using testing_tools::evaluate;
using testing_tools::integers;
using testing_tools::kBF16;
using testing_tools::kF32;
using testing_tools::reals;

TEST(IsFused, ByOpOrByActivation) {
  for (const OpSchema& schema : all_ops()) {
    if (schema.op == Op::kLinear) continue;  // depends on its attributes, below
    EXPECT_EQ(is_fused(schema.op, {}), schema.fused) << schema.name;
  }
  EXPECT_FALSE(is_fused(Op::kLinear, Attributes(Op::kLinear, {})));
  EXPECT_TRUE(is_fused(Op::kLinear, Attributes(Op::kLinear, {{attr::kEpilogue, Epilogue(Activation::kSilu)}})));
  EXPECT_FALSE(is_fused(Op::kGeluErf, {}));
  const auto group_norm = [](std::string epilogue) {
    return Attributes(Op::kGroupNorm, {{"groups", std::int64_t{1}}, {"eps", 1e-6}, {"epilogue", std::move(epilogue)}});
  };
  EXPECT_FALSE(is_fused(Op::kGroupNorm, group_norm("sum")));
  EXPECT_TRUE(is_fused(Op::kGroupNorm, group_norm("silu(sum)")));
}

TEST(ExpandNode, GroupNormIsActivatedLast) {
  const OracleTensor x = reals({1, 3, 2}, {1, 3, 2, 4, 100, 200});
  const NamedAttributes attributes = {
      {"groups", std::int64_t{2}}, {"eps", 0.0}, {"channels", std::int64_t{2}}, {"epilogue", std::string("silu(sum)")}};
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  EXPECT_THAT(evaluate(Op::kGroupNorm, {x, reals({3}, {1, 2, 1}), reals({3}, {0, 5, 7})}, attributes).reals,
              Pointwise(DoubleNear(1e-12), {silu(-1), silu(1), silu(3), silu(7), 0.0, 0.0}));
}

TEST(ExpandNode, NormModulateIsItsFormula) {
  const OracleTensor x = reals({2, 2, 2}, {1, 3, 2, 2, 0, 8, 5, 1});
  const OracleTensor scale = reals({2, 1, 2}, {0.5, -1, 2, 0});
  const OracleTensor shift = reals({2, 1, 2}, {10, 20, 30, 40});
  // With two elements a and b a row's norm is -+ half / sqrt(half^2 + eps), half = (b - a) / 2.
  const double eps = 0.01;
  const auto unit = [eps](double half) { return half / std::sqrt(half * half + eps); };
  const std::vector<double> expected = {-unit(1) * 1.5 + 10, 20,           10, 20, -unit(4) * 3 + 30, unit(4) + 40,
                                        unit(2) * 3 + 30,    -unit(2) + 40};
  EXPECT_THAT(evaluate(Op::kNormModulate, {x, scale, shift}, {{"eps", eps}}).reals,
              Pointwise(DoubleNear(1e-13), expected));
}

TEST(ExpandNode, ScaledLinearIsItsFormula) {
  const OracleTensor xq = integers({2, 2}, {1, -2, 127, 3}, DType::kI8);
  const OracleTensor x_scale = reals({2}, {0.5, 2});
  const OracleTensor wq = integers({3, 2}, {1, 1, -127, 0, 2, -5}, DType::kI8);
  const OracleTensor w_scale = reals({3}, {1, 10, 0.25});
  const OracleTensor bias = reals({3}, {100, 200, 300});
  const std::vector<double> expected = {-0.5 + 100,     -635 + 200, 1.5 + 300, 260.0 + 100, -20.0 * 127 * 127 + 200,
                                        0.5 * 239 + 300};
  EXPECT_THAT(evaluate(Op::kScaledLinear, {xq, x_scale, wq, w_scale, bias}).reals,
              Pointwise(DoubleNear(1e-9), expected));
  const OracleTensor silu =
      evaluate(Op::kScaledLinear, {xq, x_scale, wq, w_scale}, {{"epilogue", std::string("silu(sum)")}});
  EXPECT_NEAR(silu.reals[2], 1.5 / (1 + std::exp(-1.5)), 1e-12);
  const OracleTensor residual = reals({2, 3}, {1, 2, 3, 4, 5, 6}, DType::kBF16),
                     gate = reals({3}, {2, -1, 0.5}, DType::kBF16);
  const OracleTensor gated = evaluate(Op::kScaledLinear, {xq, x_scale, wq, w_scale, residual, gate},
                                      {{"epilogue", std::string("add(e0, mul(e1, sum))")}, {"dtype", DType::kBF16}});
  EXPECT_EQ(gated.reals[0], 1 - 0.5 * 2) << "the third operand after the scales is the epilogue's";
  EXPECT_EQ(gated.reals[5], 66) << "6 + 0.5 * 239 * 0.5 = 65.75, rounded once";
}

TEST(ExpandNode, AConvolutionsActivationFollowsBiasAndResidual) {
  const OracleTensor x = reals({1, 1, 1, 2}, {1, -2});
  const OracleTensor weight = reals({1, 1, 1, 1}, {3});
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  EXPECT_THAT(evaluate(Op::kConv2d, {x, weight, reals({1}, {0.5}), reals({1, 1, 1, 2}, {1, 7})},
                       {{"epilogue", std::string("silu(add(sum, e0))")}})
                  .reals,
              Pointwise(DoubleNear(1e-13), {silu(4.5), silu(1.5)}));
  EXPECT_EQ(evaluate(Op::kConv2d, {x, weight, reals({1, 1, 1, 2}, {1, 7})}, {{"epilogue", std::string("mul(e0, sum)")}})
                .reals,
            (std::vector<double>{3, -42}))
      << "without a bias the third operand is the epilogue's";
  EXPECT_TRUE(is_fused(Op::kConv2d, Attributes(Op::kConv2d, {{"epilogue", std::string("silu(sum)")}})));
}

TEST(ExpandNode, TheEpilogueOfAGroupNormFollowsItsAffineMap) {
  const OracleTensor x = reals({1, 2, 2}, {1, 3, 2, 6}), more = reals({1, 2, 2}, {10, 20, 30, 40});
  const NamedAttributes norm = {{attr::kGroups, 2}, {attr::kEps, 0.0}};
  const auto with = [&](std::string_view epilogue) {
    NamedAttributes ended = norm;
    ended.emplace_back(attr::kEpilogue, Epilogue::parse(epilogue));
    return ended;
  };
  EXPECT_EQ(evaluate(Op::kGroupNorm, {x, more}, with("add(e0, relu(sum))")).reals,
            (std::vector<double>{10, 21, 30, 41}))
      << "without weights";
  EXPECT_EQ(evaluate(Op::kGroupNorm, {x, reals({2}, {3, 1}), more}, with("add(e0, sum)")).reals,
            (std::vector<double>{7, 23, 29, 41}));
}

TEST(ExpandNode, ATransposedConvolutionsEpilogueFollowsItsBias) {
  const OracleTensor x = reals({1, 1, 1, 2}, {1, -2}), weight = reals({1, 1, 1, 2}, {3, 5});
  EXPECT_EQ(evaluate(Op::kConvTranspose2d, {x, weight, reals({1}, {0.5}), reals({1, 1, 1, 3}, {1, 0, 20})},
                     {{"epilogue", std::string("relu(add(sum, e0))")}})
                .reals,
            (std::vector<double>{4.5, 0, 10.5}));
}

TEST(ExpandNode, AShortcutIsAddedBeforeTheActivation) {
  const OracleTensor x = reals({1, 1, 1, 2}, {1, -2}), weight = reals({1, 1, 1, 1}, {3});
  const OracleTensor other = reals({1, 2, 1, 2}, {1, 2, 10, 20}), shortcut = reals({1, 2, 1, 1}, {2, 0.5});
  const std::vector<OracleTensor> operands = {x, weight, reals({1}, {0.5}), other, shortcut};
  EXPECT_THAT(evaluate(Op::kConv2dShortcut, operands).reals, testing::ElementsAre(3 + 0.5 + 2 + 5, -6 + 0.5 + 4 + 10));
  EXPECT_THAT(evaluate(Op::kConv2dShortcut, {x, weight, reals({1}, {-20}), other, shortcut},
                       {{"epilogue", std::string("relu(sum)")}})
                  .reals,
              testing::ElementsAre(0, 0));
}

TEST(ExpandNode, GateResidualIsItsFormula) {
  const OracleTensor residual = reals({1, 2, 2}, {1, 2, 3, 4});
  const OracleTensor gate = reals({1, 1, 2}, {10, 100});
  const OracleTensor x = reals({1, 2, 2}, {5, 6, 7, 8});
  EXPECT_THAT(evaluate(Op::kGateResidual, {residual, gate, x}).reals, testing::ElementsAre(51, 602, 73, 804));
}

TEST(ExpandNode, QkNormRopeIsItsFormula) {
  // One batch, two positions, two heads of two; eps 0, so that each head's norm is x / rms.
  const OracleTensor x = reals({1, 2, 4}, {3, 4, 6, 8, 1, 1, 0, 2});
  const OracleTensor weight = reals({2}, {1, 2});
  const OracleTensor cos = reals({2, 1}, {1, 0});
  const OracleTensor sin = reals({2, 1}, {0, 1});
  const double root = std::sqrt(2.0);
  const double rms = 5 / root;  // of (3, 4); (6, 8) has the same direction
  const std::vector<double> expected = {
      3 / rms, 8 / rms, -2,        1,   // head 0: position 0 as is, position 1 turned by 90 degrees
      3 / rms, 8 / rms, -2 * root, 0};  // head 1
  const OracleTensor out = evaluate(Op::kQkNormRope, {x, weight, cos, sin}, {{"heads", std::int64_t{2}}, {"eps", 0.0}});
  EXPECT_EQ(out.type.shape, (Shape{1, 2, 2, 2}));
  EXPECT_THAT(out.reals, Pointwise(DoubleNear(1e-13), expected));
}

TEST(ExpandNode, AttentionIsItsFormula) {
  // One query, two keys: scores 0.5 * (2, 4), whose softmax is a and 1 - a.
  const OracleTensor q = reals({1, 1, 1, 2}, {2, 1});
  const OracleTensor k = reals({1, 1, 2, 2}, {1, 0, 1, 2});
  const OracleTensor v = reals({1, 1, 2, 3}, {1, 2, 3, 10, 20, 30});
  const double a = 1 / (1 + std::exp(1.0));
  const std::vector<double> expected = {a + 10 * (1 - a), 2 * a + 20 * (1 - a), 3 * a + 30 * (1 - a)};
  const OracleTensor out = evaluate(Op::kAttention, {q, k, v}, {{"scale", 0.5}});
  EXPECT_EQ(out.type.shape, (Shape{1, 1, 1, 3}));
  EXPECT_THAT(out.reals, Pointwise(DoubleNear(1e-13), expected));
  EXPECT_EQ(evaluate(Op::kAttention, {q, k, v}).reals, evaluate(Op::kAttention, {q, k, v}, {{"scale", 1.0}}).reals);
}

TEST(ExpandNode, LinearEpiloguesAreThePlainOps) {
  const OracleTensor x = reals({3, 2}, {1, 2, -3, 0.5, 0, -1});
  const OracleTensor weight = reals({2, 2}, {0.5, -1, 0.25, 1});
  const OracleTensor bias = reals({2}, {0.1, -0.2});
  const OracleTensor linear = evaluate(Op::kLinear, {x, weight, bias});
  const OracleTensor residual = reals({3, 2}, {3, -1, 2, 0, 0.25, 8}), gate = reals({2}, {0.5, -2});
  const auto fused = [&](std::vector<OracleTensor> operands, std::string_view epilogue) {
    return evaluate(Op::kLinear, std::move(operands), {{attr::kEpilogue, Epilogue::parse(epilogue)}}).reals;
  };
  EXPECT_EQ(fused({x, weight, bias}, "silu(sum)"), evaluate(Op::kSilu, {linear}).reals);
  EXPECT_EQ(fused({x, weight, bias}, "gelu_tanh(sum)"), evaluate(Op::kGeluTanh, {linear}).reals);
  EXPECT_EQ(fused({x, weight, bias}, "gelu_erf(sum)"), evaluate(Op::kGeluErf, {linear}).reals);
  EXPECT_NE(fused({x, weight, bias}, "gelu_erf(sum)"), fused({x, weight, bias}, "gelu_tanh(sum)"));
  EXPECT_EQ(fused({x, weight, bias, residual, gate}, "sub(e0, mul(e1, sum))"),
            evaluate(Op::kSub, {residual, evaluate(Op::kMul, {gate, linear})}).reals);
  EXPECT_EQ(fused({x, weight, residual}, "add(e0, sum)"),
            evaluate(Op::kAdd, {residual, evaluate(Op::kLinear, {x, weight})}).reals)
      << "without a bias";
}

TEST(ExpandNode, MatmulEpiloguesAreThePlainOps) {
  const OracleTensor a = reals({1, 2, 2}, {1, 2, -3, 0.5}), b = reals({1, 2, 2}, {0.5, -1, 0.25, 1});
  const OracleTensor more = reals({1, 2, 2}, {3, -1, 2, 0});
  const NamedAttribute transposed{attr::kTransposeB, true};
  EXPECT_EQ(
      evaluate(Op::kMatmul, {a, b, more}, {transposed, {attr::kEpilogue, Epilogue::parse("mul(e0, silu(sum))")}}).reals,
      evaluate(Op::kMul, {more, evaluate(Op::kSilu, {evaluate(Op::kMatmul, {a, b}, {transposed})})}).reals);
}

/// silu(a) * b and silu(a), with the multiplication rounded to bf16.
Graph gated_body() {
  Graph body("gated");
  Builder b(body);
  const ValueId a = body.add_input("a", {DType::kF32, Shape{2, 2}});
  const ValueId x = body.add_input("b", {DType::kF32, Shape{2}});
  const ValueId gate = b.silu(a);
  body.add_output("gated", b.cast(b.mul(gate, x), kBF16));
  body.add_output("gate", gate);
  return body;
}

TEST(ExpandNode, FusedIsItsBody) {
  const OracleTensor a = reals({2, 2}, {1, 2, -3, 0.5});
  const OracleTensor b = reals({2}, {3, -1});
  const OracleTensor gate = evaluate(Op::kSilu, {a});
  const OracleTensor product = evaluate(Op::kMul, {gate, b});
  const Attributes attributes(Op::kFused, {{"body", canonical_text(gated_body())}});
  const std::vector<OracleTensor> results = interpret_node(Op::kFused, attributes, {a, b});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].reals, evaluate(Op::kCast, {product}, {{"dtype", kBF16}}).reals);
  EXPECT_EQ(results[1].reals, gate.reals);
}

TEST(BodyOf, IsOneForAllCopiesOfTheAttributesAndAnotherForAnotherText) {
  const std::string text = canonical_text(gated_body());
  const Attributes attributes(Op::kFused, {{"body", text}});
  const Attributes copy = attributes;  // before the first request
  EXPECT_EQ(&body_of(copy), &body_of(attributes));
  EXPECT_EQ(canonical_text(body_of(copy)), text);
  EXPECT_EQ(attributes, Attributes(Op::kFused, {{"body", text}})) << "equal by their text, wherever bodies are";
  Graph other("other");
  other.add_output("y", other.add_input("x", {DType::kF32, Shape{2}}));
  const Attributes changed = attributes.with(attr::kBody, canonical_text(other));
  EXPECT_EQ(body_of(changed).name(), "other");
  EXPECT_EQ(body_of(attributes).name(), "gated");
}

TEST(BodyOf, RefusesTheSameTextEachTime) {
  const Attributes attributes(Op::kFused, {{"body", std::string("no graph")}});
  for (int i = 0; i < 2; ++i) EXPECT_THROW(static_cast<void>(body_of(attributes)), Error);
}

TEST(Expand, PutsABodyInThePlaceOfItsNode) {
  Graph graph("g");
  Builder b(graph);
  const ValueId a = graph.add_input("a", {DType::kF32, Shape{2, 2}});
  b.set_path("mlp");
  const std::vector<ValueId> results = b.fused({a, graph.add_input("b", {DType::kF32, Shape{2}})}, gated_body());
  graph.add_output("y", results[0]);
  verify(graph);
  const Graph plain = expand(graph);
  verify(plain);
  ASSERT_EQ(plain.nodes().size(), 3U);
  EXPECT_EQ(plain.nodes()[2].op, Op::kCast);
  EXPECT_EQ(plain.nodes()[2].path, "mlp");
}

TEST(ExpandNode, MixedPrecisionWorksInF32AndReturnsTheDTypeOfX) {
  const OracleTensor residual = reals({1, 1, 1}, {256}, kBF16);
  const OracleTensor x = reals({1, 1, 1}, {1}, kBF16);
  const OracleTensor gate = reals({1, 1, 1}, {1.01}, kF32);
  const OracleTensor out = evaluate(Op::kGateResidual, {residual, gate, x});
  EXPECT_EQ(out.type.dtype, kBF16);
  EXPECT_EQ(out.reals[0], 258) << "257.01 lies above the middle of 256 and 258; a gate rounded to bf16 would give 256";
  const OracleTensor same = evaluate(Op::kGateResidual, {residual, reals({1, 1, 1}, {1.01}, kBF16), x});
  EXPECT_DOUBLE_EQ(same.reals[0], 257.01) << "no cast, no rounding";
}

TEST(ExpandNode, RefusesPlainOps) {
  Graph graph;
  Builder b(graph);
  const std::vector<ValueId> inputs = {graph.add_input("x", {kF32, Shape{1}})};
  EXPECT_THROW((void)expand_node(b, Op::kRelu, Attributes(Op::kRelu, {}), inputs), std::logic_error);
}

TEST(Expand, ReplacesFusedNodesInPlace) {
  const Graph graph = parse_graph(R"(
graph toy {
  input %x: f32[1, 3, 4]
  input %mod: f32[1, 1, 4]
  param %w: f32[4, 4]
  state %s: f32[1, 3, 4]
  loop 2 %i {
    %0: f32[1, 3, 4] = norm_modulate(%s, %mod, %mod) {eps = 0.5} @ block.norm
    %1: f32[1, 3, 4] = linear(%0, %w) {epilogue = silu(sum)} @ block.mlp
    %2: f32[1, 3, 4] = gate_residual(%x, %mod, %1) @ block
    next %s = %2
  }
  output y = %s
})");
  const Graph expanded = expand(graph);
  verify(expanded);
  EXPECT_EQ(canonical_text(expanded), R"(graph toy {
  input %x: f32[1, 3, 4]
  input %mod: f32[1, 1, 4]
  param %w: f32[4, 4]
  state %s: f32[1, 3, 4]
  loop 2 %i {
    %0: f32[1, 3, 4] = layer_norm(%s) {eps = 0.5} @ block.norm
    %1: f32[1, 1, 4] = add_scalar(%mod) {value = 1} @ block.norm
    %2: f32[1, 3, 4] = mul(%0, %1) @ block.norm
    %3: f32[1, 3, 4] = add(%2, %mod) @ block.norm
    %4: f32[1, 3, 4] = linear(%3, %w) {epilogue = sum, tf32 = 0} @ block.mlp
    %5: f32[1, 3, 4] = silu(%4) @ block.mlp
    %6: f32[1, 3, 4] = mul(%mod, %5) @ block
    %7: f32[1, 3, 4] = add(%x, %6) @ block
    next %s = %7
  }
  output y = %s
}
)");
}

TEST(Expand, RewiresOutputsAndLeavesPlainGraphsAlone) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2, 2}});
  const ValueId fused = b.linear(x, b.param("w", {kF32, Shape{2, 2}}), {.activation = Activation::kGeluErf});
  graph.add_output("y", fused);
  const Graph expanded = expand(graph);
  verify(expanded);
  EXPECT_NE(expanded.outputs()[0].value, fused);
  EXPECT_EQ(print(expand(expanded)), print(expanded));
}

}  // namespace
}  // namespace headroom
