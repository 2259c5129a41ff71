#include "models/params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/text/text.hpp"

namespace headroom {
namespace {

TEST(Params, AreCalledAfterTheirCheckpointWhereItHasAName) {
  for (const char* checkpoint : {"", "vae"}) {
    Graph graph("g");
    Builder builder(graph);
    std::vector<std::string> asked;
    const ParamSource params{.dtype =
                                 [&](std::string_view name) {
                                   asked.emplace_back(name);
                                   return name == "mid.q" ? DType::kI8 : DType::kBF16;
                                 },
                             .checkpoint = checkpoint};
    {
      const auto scope = builder.scope("mid");
      (void)read_param(builder, params, "w", {4, 8});
      (void)read_param(builder, params, "q", {4, 8});
      (void)read_param(builder, params, "w", {4, 8});  // is declared already
    }
    EXPECT_EQ(asked, (std::vector<std::string>{"mid.w", "mid.q", "mid.w"})) << "of the checkpoint, by its own names";
    std::vector<std::string> names;
    for (const ValueId param : graph.values_of(ValueKind::kParam)) names.push_back(graph.value(param).name);
    const std::string before = *checkpoint == '\0' ? "" : "vae:";
    EXPECT_EQ(names, (std::vector<std::string>{before + "mid.w", before + "mid.q", before + "mid.q_scale"}));
    EXPECT_EQ(canonical_text(parse_graph(print(graph))), canonical_text(graph));
    EXPECT_EQ(graph.nodes().front().path, "mid");
  }
}

/// A matrix in 8-bit floats with its scale, and that of activations, which no node reads.
TEST(Params, InEightBitFloatsHaveTheScalesOfTheFile) {
  Graph graph("g");
  Builder builder(graph);
  const ParamSource params{.dtype = [](std::string_view) { return DType::kF8E4M3; },
                           .has = [](std::string_view name) { return name != "b.input_scale"; },
                           .shape =
                               [](std::string_view) {
                                 return Shape{4, 8};
                               }};
  for (const char* const module : {"a", "b"}) {
    const auto scope = builder.scope(module);
    (void)read_param(builder, params, "weight", {4, 8});
  }
  std::vector<std::string> names;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) names.push_back(graph.value(param).name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"a.weight", "a.input_scale", "a.weight_scale", "b.weight", "b.weight_scale"}));
  const ValueId scale = graph.find(ValueKind::kParam, "a.input_scale");
  EXPECT_EQ(graph.type(scale), (TensorType{DType::kF32, {1}}));
  for (const Node& node : graph.nodes()) EXPECT_EQ(std::ranges::count(node.inputs, scale), 0);
}

/// The whole table in f32 would be twice as large as stored.
TEST(Params, OfATableAreCastRowByRow) {
  Graph graph("g");
  Builder builder(graph);
  const ValueId ids = graph.add_input("ids", {.dtype = DType::kI32, .shape = {2, 3}});
  const ParamSource params{.dtype = [](std::string_view) { return DType::kBF16; }};
  const ValueId rows = read_rows(builder, params, "table", {9, 4}, ids);
  EXPECT_EQ(graph.type(rows), (TensorType{DType::kF32, {2, 3, 4}}));
  ASSERT_EQ(graph.nodes().size(), 2U);
  EXPECT_EQ(graph.nodes()[0].op, Op::kGather);
  EXPECT_EQ(graph.type(graph.nodes()[0].inputs[0]), (TensorType{DType::kBF16, {9, 4}}));
  EXPECT_EQ(graph.nodes()[1].op, Op::kCast);
}

}  // namespace
}  // namespace headroom
