#include "autodiff/differentiate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "autodiff/test_util.hpp"
#include "base/error.hpp"
#include "ir/verify.hpp"

namespace headroom {
namespace {

using namespace testing_tools;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::size_t count_of(const Graph& graph, Op op) {
  return static_cast<std::size_t>(std::ranges::count(graph.nodes(), op, &Node::op));
}

std::string refusal_of(Builder& builder, ValueId loss, const std::vector<ValueId>& wrt) {
  try {
    static_cast<void>(differentiate(builder, loss, wrt));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Differentiate, MultipliesAndAddsAlongEveryWay) {
  LossGraph graph;
  const ValueId x = graph.input({2}), y = graph.input({2});
  const ValueId product = graph->mul(x, y);
  graph.differentiate(graph.total(graph->add(graph->mul(product, x), x)), {x, y, product});  // x^2 y + x
  const NamedTensors made = graph.run({doubles({2}, {3, -2}), doubles({2}, {5, 7})});
  EXPECT_THAT(values_of(made.at("d0")), ElementsAre(2 * 3 * 5 + 1, 2 * -2 * 7 + 1));
  EXPECT_THAT(values_of(made.at("d1")), ElementsAre(9, 4));
  EXPECT_THAT(values_of(made.at("d2")), ElementsAre(3, -2)) << "a value in between";
}

TEST(Differentiate, GivesZerosWhereTheLossDependsOnNothing) {
  LossGraph graph;
  const ValueId x = graph.input({2}), y = graph.input({3}, DType::kBF16);
  graph.differentiate(graph.total(graph->mul(x, x)), {y, x});
  EXPECT_EQ(graph.graph().type(graph.graph().outputs()[1].value), (TensorType{DType::kBF16, {3}}));
  const NamedTensors made = graph.run({doubles({2}, {3, -2}), doubles({3}, {5, 7, 9})});
  EXPECT_THAT(values_of(made.at("d0")), Each(0));
  EXPECT_THAT(values_of(made.at("d1")), ElementsAre(6, -4));
}

TEST(Differentiate, ALossThatIsAskedForHasTheGradient1) {
  LossGraph graph;
  const ValueId x = graph.input(Shape{});
  graph.differentiate(x, {x});
  EXPECT_THAT(values_of(graph.run({doubles({}, {3})}).at("d0")), ElementsAre(1));
}

// x^3 has the second derivative 6x.
TEST(Differentiate, DifferentiatesGradients) {
  LossGraph graph;
  const ValueId x = graph.input({2});
  const ValueId wrt[] = {x};
  const ValueId first = differentiate(graph.builder(), graph.total(graph->mul(graph->mul(x, x), x)), wrt)[0];
  graph.differentiate(graph.total(first), {x});
  EXPECT_THAT(values_of(graph.run({doubles({2}, {3, -2})}).at("d0")), ElementsAre(18, -12));
}

TEST(Differentiate, NamesNodesAfterTheirModules) {
  LossGraph graph;
  const ValueId x = graph.input({2, 4}), weight = graph.input({3, 4});
  ValueId y = kNoValue;
  {
    const auto scope = graph->scope("blocks.0.to_q");
    y = graph->linear(x, weight);
  }
  const std::size_t forward = graph.graph().nodes().size();
  graph.differentiate(graph.total(graph->exp(y)), {weight});
  std::size_t in_module = 0;
  for (const Node& node : graph.graph().nodes().subspan(forward))
    in_module += node.path == "backward.blocks.0.to_q" ? 1 : 0;
  EXPECT_GT(in_module, 0U);
  EXPECT_EQ(graph->path(), "");
}

TEST(Differentiate, LeavesNothingThatNobodyReads) {
  LossGraph graph;
  const ValueId x = graph.input({2, 4});
  graph.differentiate(graph.total(graph->clamp(graph->gelu(x, "none"), -1, 1)), {x});
  std::vector<bool> is_read(graph.graph().value_count(), false);
  for (const Node& node : graph.graph().nodes())
    for (const ValueId input : node.inputs) is_read[index_of(input)] = true;
  for (const Output& output : graph.graph().outputs()) is_read[index_of(output.value)] = true;
  for (const Node& node : graph.graph().nodes()) EXPECT_TRUE(is_read[index_of(node.results[0])]) << describe(node);
}

// The backward needs the sum before the activation, which must not be computed a second time.
TEST(Differentiate, WritesDefinitionsOutUnderTheSameNames) {
  LossGraph graph;
  const ValueId x = graph.input({2, 4}), weight = graph.input({3, 4});
  const ValueId y = graph->linear(x, weight, {.activation = Activation::kGeluTanh});
  graph->graph().add_output("y", y);
  graph.differentiate(graph.total(y), {weight});
  EXPECT_NO_THROW(verify(graph.graph()));
  EXPECT_EQ(count_of(graph.graph(), Op::kLinear), 1U);
  EXPECT_EQ(count_of(graph.graph(), Op::kGeluTanh), 1U);
  EXPECT_EQ(graph.graph().outputs()[0].value, y);
}

TEST(Differentiate, KeepsFusedOpsThatAreNotOnTheWay) {
  LossGraph graph;
  const ValueId x = graph.input({2, 4}), frozen = graph.input({3, 4}), scale = graph.input({3});
  const ValueId y = graph->linear(x, frozen, {.activation = Activation::kSilu});
  graph.differentiate(graph.total(graph->mul(y, scale)), {scale});
  EXPECT_FALSE(graph.graph().nodes()[0].attributes[attr::kEpilogue].is_empty());
}

// A fused body may return an operand, and a value twice.
TEST(Differentiate, WritesOutBodiesThatReturnTheirOperands) {
  Graph body("body");
  Builder inner(body);
  const ValueId a = body.add_input("a", {DType::kF32, {2}});
  const ValueId square = inner.mul(a, a);
  body.add_output("a", a);
  body.add_output("square", square);
  body.add_output("again", square);
  LossGraph graph;
  const ValueId x = graph.input({2});
  const std::vector<ValueId> made = graph->fused({x}, body);
  const ValueId sum = graph->add(made[0], graph->add(made[1], graph->mul_scalar(made[2], 10)));
  graph.differentiate(graph.total(sum), {x});  // x + 11 x^2
  EXPECT_NO_THROW(verify(graph.graph()));
  EXPECT_THAT(values_of(graph.run({doubles({2}, {3, -2})}).at("d0")), ElementsAre(67, -43));
}

TEST(Differentiate, DifferentiatesWithinALoop) {
  Graph graph("loop");
  Builder builder(graph);
  const ValueId table = graph.add_input("x", {DType::kF32, {2, 3}}), weight = graph.add_input("w", {DType::kF32, {3}});
  const ValueId sum = graph.add_state("sum", {DType::kF32, {3}});
  const ValueId square = builder.mul(weight, weight);  // of the region around the loop
  {
    const Builder::Loop loop = builder.loop(2, "i");
    const ValueId x = builder.row(table, loop.counter());
    const ValueId loss = builder.sum(builder.mul(square, x), {0});
    const ValueId wrt[] = {weight};
    builder.set_next(sum, builder.add(sum, differentiate(builder, loss, wrt)[0]));
  }
  graph.add_output("sum", sum);
  verify(graph);
  const OracleResult made =
      interpret(graph, {{"x", doubles({2, 3}, {1, 2, 3, 4, 5, 6})}, {"w", doubles({3}, {1, 10, 100})}}, {},
                {{"sum", doubles({3}, {0, 0, 0})}});
  EXPECT_THAT(values_of(made.outputs.at("sum")), ElementsAre(2 * 5, 20 * 7, 200 * 9));
}

// What is trained is a state; the gradient is part of the program that updates it.
TEST(Differentiate, TrainsAState) {
  Graph graph("descent");
  Builder builder(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, {4, 2}}), y = graph.add_input("y", {DType::kF32, {4, 1}});
  const ValueId weight = graph.add_state("weight", {DType::kF32, {1, 2}});
  const ValueId error = builder.sub(builder.linear(x, weight), y);
  const ValueId loss = builder.mean(builder.mul(error, error), {0, 1});
  const ValueId wrt[] = {weight};
  builder.set_next(weight, builder.sub(weight, builder.mul_scalar(differentiate(builder, loss, wrt)[0], 0.25)));
  graph.add_output("loss", loss);
  verify(graph);
  NamedTensors states = {{"weight", doubles({1, 2}, {0, 0})}};
  const NamedTensors inputs = {{"x", doubles({4, 2}, {1, 0, 0, 1, 1, 1, 1, -1})},
                               {"y", doubles({4, 1}, {3, -2, 1, 5})}};  // 3 x0 - 2 x1
  double last = std::numeric_limits<double>::infinity();
  for (int step = 0; step < 60; ++step) {
    const OracleResult made = interpret(graph, inputs, {}, states);
    EXPECT_LT(made.outputs.at("loss").at(0), last);
    last = made.outputs.at("loss").at(0);
    states = made.states;
  }
  EXPECT_NEAR(states.at("weight").at(0), 3, 1e-6);
  EXPECT_NEAR(states.at("weight").at(1), -2, 1e-6);
}

TEST(Differentiate, RefusesLoopsAndBranches) {
  Graph graph("loop");
  Builder builder(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, Shape{}}), y = graph.add_state("y", {DType::kF32, Shape{}});
  {
    const Builder::Loop loop = builder.loop(3, "i");
    builder.set_next(y, builder.mul(y, x));
  }
  EXPECT_THAT(refusal_of(builder, builder.exp(builder.read(y)), {x}), HasSubstr("a result of a loop"));
  const ValueId chosen = builder.select(
      builder.less(x, builder.constant({0}, Shape{})), [&] { return std::vector{builder.exp(x)}; },
      [&] { return std::vector{builder.neg(x)}; })[0];
  EXPECT_THAT(refusal_of(builder, chosen, {x}), HasSubstr("a result of a branch"));
  EXPECT_EQ(refusal_of(builder, builder.exp(x), {x}), "none") << "it does not lead through either";
}

// Each iteration stores x, and the next one reads it.
TEST(Differentiate, RefusesLoopsThatDependOnAnEarlierIteration) {
  Graph graph("loop");
  Builder builder(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, Shape{}}), y = graph.add_state("y", {DType::kF32, Shape{}});
  ValueId last = kNoValue;
  {
    const Builder::Loop loop = builder.loop(3, "i");
    const ValueId stored = builder.exp(y);
    builder.set_next(y, builder.neg(x));
    last = loop.yield(stored);
  }
  EXPECT_THAT(refusal_of(builder, builder.exp(last), {x}), HasSubstr("a result of a loop"));
}

// An `if` without nodes of its own, which chooses between values that exist already.
TEST(Differentiate, RefusesBranchesWithoutNodes) {
  Graph graph("branch");
  Builder builder(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, Shape{}}),
                is_on = graph.add_input("on", {DType::kBool, Shape{}});
  const ValueId y = builder.exp(x), z = builder.neg(x);
  const ValueId chosen = builder.run_if(is_on, [&] { return std::vector{y}; }, {z})[0];
  EXPECT_THAT(refusal_of(builder, builder.exp(chosen), {x}), HasSubstr("a result of a branch"));
}

TEST(Differentiate, RefusesWhatHasNoDerivative) {
  LossGraph graph;
  const ValueId x = graph.input({2, 4}), half = graph.input({4}, DType::kBF16), id = graph.input({2}, DType::kI32);
  const auto [q, scale] = graph->quantize(graph->exp(x));
  const ValueId loss = graph.total(graph->mul(graph->cast(q, DType::kF32), graph->reshape(scale, {2, 1})));
  EXPECT_THAT(refusal_of(graph.builder(), loss, {x}), HasSubstr("quantize has no derivative: it rounds to 8 bits"));
  const ValueId narrow = graph->cast(graph->cast(x, DType::kF8E4M3), DType::kF32);
  EXPECT_THAT(refusal_of(graph.builder(), graph.total(narrow), {x}), HasSubstr("too few bits"));
  EXPECT_THAT(refusal_of(graph.builder(), graph->exp(x), {x}), HasSubstr("must be a scalar"));
  EXPECT_THAT(refusal_of(graph.builder(), graph.total(x), {id}), HasSubstr("floats of at least 16 bits, not i32[2]"));
  EXPECT_EQ(refusal_of(graph.builder(), graph.total(half), {half}), "none");
}

TEST(Differentiate, RefusesImagesInOtherLayouts) {
  LossGraph graph;
  const ValueId x = graph.input({2, 3, 4, 4});
  const ValueId pixels = graph->emit(Op::kReshape, {x}, {{attr::kShape, Ints{2, 3, 4, 4}}})[0];
  graph->graph().set_layout(pixels, Layout::kChannelsLast);
  const ValueId back = graph->emit(Op::kReshape, {graph->exp(pixels)}, {{attr::kShape, Ints{2, 3, 4, 4}}})[0];
  EXPECT_THAT(refusal_of(graph.builder(), graph.total(back), {x}), HasSubstr("row-major"));
}

TEST(Differentiate, GivesGradientsOf16BitsToValuesOf16Bits) {
  LossGraph graph;
  const ValueId x = graph.input({5, 4}, DType::kBF16), weight = graph.input({3, 4}, DType::kBF16),
                bias = graph.input({3}), table = graph.input({7, 3}, DType::kBF16), ids = graph.input({5}, DType::kI32);
  const ValueId y = graph->linear(x, weight, {.bias = bias, .activation = Activation::kGeluErf});
  const ValueId z = graph->mul(y, graph->gather(table, ids));
  graph.differentiate(graph.total(graph->cast(graph->rms_norm(z, kNoValue, 1e-6), DType::kF32)),
                      {x, weight, bias, table});
  const std::span<const Output> outputs = graph.graph().outputs();
  EXPECT_EQ(graph.graph().type(outputs[1].value), (TensorType{DType::kBF16, {5, 4}}));
  EXPECT_EQ(graph.graph().type(outputs[2].value), (TensorType{DType::kBF16, {3, 4}}));
  EXPECT_EQ(graph.graph().type(outputs[3].value), (TensorType{DType::kF32, {3}}));
  EXPECT_EQ(graph.graph().type(outputs[4].value), (TensorType{DType::kBF16, {7, 3}}));
  for (const Node& node : graph.graph().nodes())
    EXPECT_TRUE(node.op != Op::kScatterAdd || graph.graph().type(node.results[0]).dtype == DType::kF32);
}

// 1 + 2^-8 + 2^-8 in bf16: each term is lost if the sum is rounded in between.
TEST(Differentiate, AddsSeveralGradientsBeforeItRounds) {
  LossGraph graph;
  const ValueId x = graph.input({1}, DType::kBF16);
  const auto times = [&](double factor) { return graph->cast(graph->mul_scalar(x, factor), DType::kF32); };
  graph.differentiate(graph.total(graph->add(graph->add(times(1), times(0x1p-8)), times(0x1p-8))), {x});
  EXPECT_THAT(values_of(graph.run({doubles({1}, {1})}).at("d0")), ElementsAre(1 + 0x1p-7));
}

/// Gradients of an attention's queries, keys and values, and of its bias if that is a float.
NamedTensors attention_gradients(const Builder::Attention& with, const std::vector<bool>& sees, bool has_logsumexp) {
  LossGraph graph;
  const ValueId q = graph.input({1, 1, 2, 4}), k = graph.input({1, 1, 3, 4}), v = graph.input({1, 1, 3, 4});
  Builder::Attention how = with;
  std::vector<HostTensor> given;
  for (const std::int64_t rows : {2, 3, 3}) {
    std::vector<float> draws(static_cast<std::size_t>(rows) * 4);
    fill_normal(draws, 3, given.size());
    given.push_back(doubles({1, 1, rows, 4}, {draws.begin(), draws.end()}));
  }
  if (!sees.empty()) {
    how.bias = graph.input({1, 1, 2, 3}, DType::kBool);
    HostTensor mask(DType::kBool, {1, 1, 2, 3});
    for (std::size_t i = 0; i < sees.size(); ++i) mask.set(static_cast<std::int64_t>(i), sees[i] ? 1 : 0);
    given.push_back(std::move(mask));
  }
  const auto [out, logsumexp] = graph->attention_and_logsumexp(q, k, v, how);
  // exp(logsumexp) is 0 for a query without keys, whose logsumexp is -inf.
  graph.differentiate(has_logsumexp ? graph.weighted_sum({out, graph->exp(logsumexp)}) : graph.weighted_sum({out}),
                      {q, k, v});
  return graph.run(given);
}

TEST(Differentiate, QueriesWithoutKeysHaveTheGradient0) {
  for (const bool has_logsumexp : {false, true}) {
    const NamedTensors masked =
        attention_gradients({.scale = 0.5}, {false, false, false, true, false, true}, has_logsumexp);
    const NamedTensors causal = attention_gradients({.scale = 0.5, .causal = true, .diagonal = -1}, {}, has_logsumexp);
    for (const NamedTensors* made : {&masked, &causal}) {
      const std::vector<double> of_queries = values_of(made->at("d0"));
      EXPECT_THAT(std::vector(of_queries.begin(), of_queries.begin() + 4), Each(0));
      EXPECT_THAT(std::vector(of_queries.begin() + 4, of_queries.end()),
                  Each(testing::Truly([](double x) { return std::isfinite(x); })));
      for (const char* name : {"d1", "d2"})
        EXPECT_THAT(values_of(made->at(name)), Each(testing::Truly([](double x) { return std::isfinite(x); })));
    }
  }
}

/// The rule of attention reads the logarithms of sums instead of probabilities; without these the definition has the
/// same gradients.
TEST(Differentiate, AttentionsGradientKeepsNoScores) {
  for (const bool causal : {false, true}) {
    std::vector<NamedTensors> made;
    for (const bool has_logsumexp : {false, true}) {
      LossGraph graph;
      const ValueId q = graph.input({1, 4, 5, 4}), k = graph.input({1, 2, 6, 4}), v = graph.input({1, 2, 6, 3});
      const Builder::Attention how{.scale = 0.5, .causal = causal, .diagonal = causal ? 1 : 0};
      const ValueId out =
          has_logsumexp ? graph->attention_and_logsumexp(q, k, v, how).first : graph->attention(q, k, v, how);
      graph.differentiate(graph.weighted_sum({out}), {q, k, v});
      const bool has_scores = std::ranges::any_of(graph.graph().nodes(), [&](const Node& node) {
        return graph.graph().type(node.results[0]).shape == Shape{1, 4, 5, 6};
      });
      EXPECT_EQ(has_scores, !has_logsumexp);
      std::vector<HostTensor> given;
      for (const Shape& shape : {Shape{1, 4, 5, 4}, Shape{1, 2, 6, 4}, Shape{1, 2, 6, 3}}) {
        std::vector<float> draws(static_cast<std::size_t>(shape.numel()));
        fill_normal(draws, 3, given.size());
        given.push_back(doubles(shape, {draws.begin(), draws.end()}));
      }
      made.push_back(graph.run(given));
    }
    for (const char* name : {"d0", "d1", "d2"}) EXPECT_LT(relative_l2(made[1].at(name), made[0].at(name)), 1e-12);
  }
}

/// Slices that cover a value have a gradient that is copied together, not added up.
TEST(Differentiate, ConcatenatesTheGradientsOfSlices) {
  const auto ops_of = [](std::int64_t second) {
    LossGraph graph;
    const ValueId x = graph.input({3, 6});
    const ValueId first = graph->mul_scalar(graph->slice(x, 1, 0, 2), 2);
    const ValueId other = graph->mul_scalar(graph->slice(x, 1, second, 4), 3);
    graph.differentiate(graph->add(graph.total(first), graph.total(other)), {x});
    std::vector<double> expected;
    for (int i = 0; i < 18; ++i)
      expected.push_back((i % 6 < 2 ? 2 : 0) + (i % 6 >= second && i % 6 < second + 4 ? 3 : 0));
    EXPECT_EQ(values_of(graph.run({doubles({3, 6}, std::vector<double>(18, 1))}).at("d0")), expected);
    const auto count = [&](Op op) { return std::ranges::count(graph.graph().nodes(), op, &Node::op); };
    return std::pair(count(Op::kConcat), count(Op::kPad));
  };
  EXPECT_EQ(ops_of(2), std::pair(1L, 0L));
  EXPECT_EQ(ops_of(1), std::pair(0L, 2L)) << "the slices overlap";
}

}  // namespace
}  // namespace headroom
