#include "plan/weight_key.hpp"

#include <gtest/gtest.h>

#include <array>

#include "ir/builder.hpp"
#include "ir/text/text.hpp"

namespace headroom {
namespace {

TEST(WeightGraph, HoldsWhatSeveralWeightsShareOnce) {
  Graph graph("model");
  Builder builder(graph);
  const ValueId a = graph.add_param("a.weight", {DType::kF32, {4, 8}});
  const ValueId b = graph.add_param("b.weight", {DType::kF32, {4, 8}});
  const ValueId merged = builder.concat({a, b}, 0);
  const auto [data, scales] = builder.quantize(merged, DType::kI8);

  const Graph both = weight_graph(graph, std::array{scales, data});
  EXPECT_EQ(both.nodes().size(), 2U);
  EXPECT_EQ(both.values_of(ValueKind::kInput).size(), 2U);
  EXPECT_EQ(both.type(both.outputs()[0].value), graph.type(scales));
  EXPECT_EQ(both.type(both.outputs()[1].value), graph.type(data));

  const Graph param = weight_graph(graph, std::array{a});
  EXPECT_TRUE(param.nodes().empty());
  EXPECT_EQ(param.value(param.outputs()[0].value).name, "a.weight");
}

TEST(WeightKey, NamesTheExpression) {
  Graph graph("model");
  Builder builder(graph);
  const auto [data, scales] = builder.quantize(graph.add_param("a", {DType::kF32, {4, 8}}), DType::kI8);
  const std::vector<int> producers = find_producers(graph);
  EXPECT_NE(weight_key(graph, producers, data), weight_key(graph, producers, scales));
  EXPECT_NE(weight_key(graph, producers, data).find("(a)"), std::string::npos);
}

TEST(WeightKey, TellsLayoutsApart) {
  const Graph graph = parse_graph(R"(graph g {
      param %p: f32[1, 2, 3, 3]
      %1: f32[1, 2, 3, 3] channels_last = reshape(%p) {shape = [1, 2, 3, 3]}
      %2: f32[1, 2, 3, 3] = reshape(%p) {shape = [1, 2, 3, 3]}
    })");
  const std::vector<int> producers = find_producers(graph);
  const ValueId image = graph.nodes()[0].results[0], rows = graph.nodes()[1].results[0];
  EXPECT_NE(weight_key(graph, producers, image), weight_key(graph, producers, rows));
  const Graph weight = weight_graph(graph, std::array{image});
  EXPECT_EQ(weight.type(weight.outputs()[0].value), graph.type(image));
}

}  // namespace
}  // namespace headroom
