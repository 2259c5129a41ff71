#include "ir/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_tools::kF32;

TEST(GraphTest, IdsAreDenseInOrderOfCreation) {
  Graph graph;
  EXPECT_EQ(graph.add_input("x", {kF32, Shape{2}}), ValueId{0});
  EXPECT_EQ(graph.add_param("w", {kF32, Shape{2}}), ValueId{1});
  EXPECT_EQ(graph.append(Op::kAdd, {ValueId{0}, ValueId{1}}, Attributes(Op::kAdd, {}), "a", kTopRegion), ValueId{2});
  EXPECT_EQ(graph.add_loop(kTopRegion, 4, "i"), 1);
  EXPECT_EQ(graph.regions()[1].counter, ValueId{3});
  EXPECT_EQ(graph.add_state("s", {kF32, Shape{2}}), ValueId{4});
  EXPECT_EQ(graph.value_count(), 5U);
  EXPECT_EQ(graph.type(ValueId{3}), (TensorType{DType::kI32, Shape{}}));
}

TEST(GraphTest, NamesAreUniqueWithinAKindOnly) {
  Graph graph;
  const ValueId input = graph.add_input("x", {kF32, Shape{2}});
  const ValueId state = graph.add_state("x", {kF32, Shape{3}});
  EXPECT_THROW(graph.add_input("x", {kF32, Shape{2}}), std::logic_error);
  EXPECT_EQ(graph.find(ValueKind::kInput, "x"), input);
  EXPECT_EQ(graph.find(ValueKind::kState, "x"), state);
  EXPECT_EQ(graph.find(ValueKind::kParam, "x"), kNoValue);
  EXPECT_EQ(graph.find(ValueKind::kResult, ""), kNoValue);
  graph.add_output("y", input);
  EXPECT_THROW(graph.add_output("y", state), std::logic_error);
}

TEST(GraphTest, FindsEachOfManyParams) {  // by an index: a search through all values would take minutes
  constexpr int kParams = 200'000;
  const auto name = [](int i) { return fmt::format("layers.{}.weight", i); };
  Graph graph;
  for (int i = 0; i < kParams; ++i) graph.add_param(name(i), {kF32, Shape{1}});
  const Graph copy = graph;
  for (int i = 0; i < kParams; ++i) ASSERT_EQ(copy.find(ValueKind::kParam, name(i)), ValueId{i});
  EXPECT_EQ(copy.find(ValueKind::kParam, name(kParams)), kNoValue);
}

TEST(GraphTest, FindsCounters) {
  Graph graph;
  const RegionId loop = graph.add_loop(kTopRegion, 4, "step");
  EXPECT_EQ(graph.find(ValueKind::kCounter, "step"), graph.region(loop).counter);
  EXPECT_EQ(graph.find(ValueKind::kRegionResult, "step"), kNoValue);
}

TEST(GraphTest, ListsValuesOfAKindInOrder) {
  Graph graph;
  const ValueId a = graph.add_param("a", {kF32, Shape{1}});
  graph.add_input("x", {kF32, Shape{1}});
  const ValueId b = graph.add_param("b", {kF32, Shape{1}});
  EXPECT_THAT(graph.values_of(ValueKind::kParam), ElementsAre(a, b));
  EXPECT_TRUE(graph.values_of(ValueKind::kState).empty());
}

TEST(GraphTest, RefusesWhatDoesNotExist) {
  Graph graph;
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  EXPECT_THROW((void)graph.value(ValueId{7}), std::logic_error);
  EXPECT_THROW((void)graph.value(kNoValue), std::logic_error);
  EXPECT_THROW(graph.add_loop(5, 2, "i"), std::logic_error);
  EXPECT_THROW(graph.add_loop(kTopRegion, 0, "i"), std::logic_error);
  EXPECT_THROW(graph.set_next(x, x, kTopRegion), std::logic_error);
  EXPECT_THROW(graph.add_input("empty", {kF32, Shape{0}}), std::logic_error);
}

TEST(GraphTest, AnErrorOfInferenceNamesTheModule) {
  Graph graph;
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  const ValueId y = graph.add_input("y", {kF32, Shape{3}});
  try {
    graph.append(Op::kAdd, {x, y}, Attributes(Op::kAdd, {}), "blocks.3.mlp", kTopRegion);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("blocks.3.mlp"));
    EXPECT_THAT(error.what(), HasSubstr("[2] and [3]"));
  }
}

TEST(GraphTest, MakeNodeDoesNotScheduleAndTakeNodesLeavesNone) {
  Graph graph;
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  Node node = graph.make_node(Op::kRelu, {x}, Attributes(Op::kRelu, {}), "", kTopRegion);
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_EQ(graph.type(node.results[0]), (TensorType{kF32, Shape{2}}));
  graph.set_nodes({node});
  EXPECT_EQ(graph.nodes().size(), 1U);
  EXPECT_EQ(graph.take_nodes().size(), 1U);
  EXPECT_TRUE(graph.nodes().empty());
}

TEST(GraphTest, ReplacesUsesInNodesOutputsAndUpdates) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  const ValueId state = graph.add_state("s", {kF32, Shape{2}});
  const ValueId old = b.relu(x);
  const ValueId user = b.add(old, old);
  graph.add_output("y", old);
  graph.set_next(state, old, kTopRegion);
  graph.replace_uses(old, x);
  EXPECT_THAT(graph.nodes()[1].inputs, ElementsAre(x, x));
  EXPECT_EQ(graph.outputs()[0].value, x);
  EXPECT_EQ(graph.state_updates()[0].next, x);
  EXPECT_EQ(graph.nodes()[1].results[0], user);
  EXPECT_EQ(graph.nodes()[0].results[0], old) << "definitions stay";
}

TEST(GraphTest, ALaterUpdateOfAStateReplacesTheEarlier) {
  Graph graph;
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  const ValueId state = graph.add_state("s", {kF32, Shape{2}});
  const RegionId loop = graph.add_loop(kTopRegion, 2, "i");
  graph.set_next(state, x, kTopRegion);
  graph.set_next(state, state, loop);
  ASSERT_EQ(graph.state_updates().size(), 1U);
  EXPECT_EQ(graph.state_updates()[0].next, state);
  EXPECT_EQ(graph.state_updates()[0].region, loop);
}

TEST(GraphAnalysis, FindsProducersAndReadsOutsideNodes) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  graph.add_input("unused", {kF32, Shape{2}});
  const ValueId state = graph.add_state("s", {kF32, Shape{2}});
  const ValueId doubled = b.add(x, x);
  const ValueId last = b.relu(doubled);
  graph.add_output("y", last);
  graph.set_next(state, last, kTopRegion);
  EXPECT_THAT(reads_outside_nodes(graph), ElementsAre(last, last));
  EXPECT_THAT(find_producers(graph), ElementsAre(-1, -1, -1, 0, 1));
}

TEST(GraphAnalysis, WeightValuesDependOnParamsAlone) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{4, 3}});
  const ValueId state = graph.add_state("s", {kF32, Shape{4, 2}});
  const ValueId w = graph.add_param("w", {kF32, Shape{2, 3}});
  const ValueId scaled = b.mul_scalar(w, 2.0);
  const ValueId both = b.concat({w, scaled}, 0);
  const ValueId matmul = b.linear(x, scaled);
  const ValueId sum = b.add(matmul, state);
  const std::vector<bool> is_weight = find_weight_values(graph);
  EXPECT_TRUE(is_weight[index_of(w)]);
  EXPECT_TRUE(is_weight[index_of(scaled)]);
  EXPECT_TRUE(is_weight[index_of(both)]);
  EXPECT_FALSE(is_weight[index_of(x)]);
  EXPECT_FALSE(is_weight[index_of(state)]);
  EXPECT_FALSE(is_weight[index_of(matmul)]);
  EXPECT_FALSE(is_weight[index_of(sum)]);
}

TEST(GraphAnalysis, DescribesANodeByOpAndPath) {
  Graph graph;
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  graph.append(Op::kRelu, {x}, Attributes(Op::kRelu, {}), "net.act", kTopRegion);
  graph.append(Op::kRelu, {x}, Attributes(Op::kRelu, {}), "", kTopRegion);
  EXPECT_EQ(describe(graph.nodes()[0]), "relu at net.act");
  EXPECT_EQ(describe(graph.nodes()[1]), "relu");
}

TEST(TensorTypeTest, CountsBytes) {
  EXPECT_EQ((TensorType{DType::kBF16, Shape{3, 5}}.bytes()), 30U);
  EXPECT_EQ((TensorType{DType::kI64, Shape{}}.bytes()), 8U);
}

}  // namespace
}  // namespace headroom
