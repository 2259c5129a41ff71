#include "ir/ranks/collectives.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"

namespace headroom {
namespace {

/// Graphs of ranks that each run `node` on an input x of their own shape; attributes of the group are added.
std::vector<Graph> graphs_of(const std::vector<std::string>& x_types, const std::vector<std::string>& y_types,
                             const std::string& op, const std::string& attributes) {
  std::vector<Graph> graphs;
  std::vector<std::size_t> group;
  for (std::size_t rank = 0; rank < x_types.size(); ++rank) group.push_back(rank);
  for (std::size_t rank = 0; rank < x_types.size(); ++rank)
    graphs.push_back(
        parse_graph(fmt::format("graph g {{\n  input %x: {}\n  %1: {} = {}(%x) {{group = [{}], rank = {}{}}}\n"
                                "  output y = %1\n}}",
                                x_types[rank], y_types[rank], op, fmt::join(group, ", "), rank, attributes)));
  return graphs;
}

HostTensor numbers(Shape shape, const std::vector<double>& values) {
  HostTensor tensor(DType::kF32, shape);
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

std::vector<std::vector<double>> run(const std::vector<Graph>& graphs, const std::vector<HostTensor>& inputs) {
  std::vector<RankTensors> given;
  for (const HostTensor& input : inputs) given.push_back({.inputs = {{"x", input}}});
  std::vector<std::vector<double>> outputs;
  for (const OracleResult& result : interpret_ranks(graphs, given)) {
    const HostTensor& y = result.outputs.at("y");
    outputs.emplace_back();
    for (std::int64_t i = 0; i < y.numel(); ++i) outputs.back().push_back(y.at(i));
  }
  return outputs;
}

using Numbers = std::vector<std::vector<double>>;

TEST(Collectives, AllGatherJoinsTheSharesInTheOrderOfTheGroup) {
  const std::vector<Graph> graphs =
      graphs_of({"f32[2, 1]", "f32[2, 2]"}, {"f32[2, 3]", "f32[2, 3]"}, "all_gather", ", axis = 1, shares = [1, 2]");
  EXPECT_EQ(run(graphs, {numbers({2, 1}, {1, 4}), numbers({2, 2}, {2, 3, 5, 6})}),
            (Numbers{{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}));
}

TEST(Collectives, ReduceScatterGivesEachRankItsPartOfTheSum) {
  const std::vector<Graph> graphs =
      graphs_of({"f32[3]", "f32[3]"}, {"f32[1]", "f32[2]"}, "reduce_scatter", ", axis = 0, shares = [1, 2]");
  EXPECT_EQ(run(graphs, {numbers({3}, {1, 2, 3}), numbers({3}, {10, 20, 30})}), (Numbers{{11}, {22, 33}}));
}

TEST(Collectives, AllReduceSumsOrTakesTheLargest) {
  const std::vector<std::string> types(3, "f32[2]");
  const std::vector<HostTensor> inputs = {numbers({2}, {1, -2}), numbers({2}, {3, -4}), numbers({2}, {2, -6})};
  EXPECT_EQ(run(graphs_of(types, types, "all_reduce", ""), inputs), (Numbers{{6, -12}, {6, -12}, {6, -12}}));
  EXPECT_EQ(run(graphs_of(types, types, "all_reduce", ", largest = 1"), inputs), (Numbers{{3, -2}, {3, -2}, {3, -2}}));
}

TEST(Collectives, AllToAllExchangesOneAxisForAnother) {
  // Heads (3, of which the ranks get 1 and 2) for tokens (2 and 1): x[head, token].
  const std::vector<Graph> graphs = graphs_of({"f32[3, 2]", "f32[3, 1]"}, {"f32[1, 3]", "f32[2, 3]"}, "all_to_all",
                                              ", axis = 1, shares = [2, 1], split_axis = 0, split = [1, 2]");
  EXPECT_EQ(run(graphs, {numbers({3, 2}, {0, 1, 10, 11, 20, 21}), numbers({3, 1}, {2, 12, 22})}),
            (Numbers{{0, 1, 2}, {10, 11, 12, 20, 21, 22}}));
}

TEST(Collectives, ShiftPassesSharesAroundTheRing) {
  const std::vector<Graph> graphs = graphs_of({"f32[1]", "f32[2]", "f32[3]"}, {"f32[3]", "f32[1]", "f32[2]"}, "shift",
                                              ", axis = 0, shares = [1, 2, 3]");
  EXPECT_EQ(run(graphs, {numbers({1}, {1}), numbers({2}, {2, 2}), numbers({3}, {3, 3, 3})}),
            (Numbers{{3, 3, 3}, {1}, {2, 2}}));
}

TEST(Collectives, RunInLoopsAndBranchesOfAllRanks) {
  std::vector<Graph> graphs;
  for (int rank = 0; rank < 2; ++rank)
    graphs.push_back(parse_graph(fmt::format(R"(graph g {{
  input %x: f32[1]
  state %sum: f32[1]
  loop 3 %i {{
    %1: f32[1] = all_reduce(%x) {{group = [0, 1], rank = {}}}
    %2: f32[1] = add(%sum, %1)
    next %sum = %2
  }}
  output y = %sum
}})",
                                             rank)));
  std::vector<RankTensors> given;
  for (const double x : {1.0, 2.0})
    given.push_back({.inputs = {{"x", numbers({1}, {x})}}, .states = {{"sum", numbers({1}, {0})}}});
  for (const OracleResult& result : interpret_ranks(graphs, given)) EXPECT_EQ(result.outputs.at("y").at(0), 9);
}

std::string refusal(const std::vector<Graph>& graphs) {
  std::vector<const Graph*> pointers;
  for (const Graph& graph : graphs) pointers.push_back(&graph);
  try {
    require_equal_collectives(pointers);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Collectives, RanksWithOtherCollectivesAreRefused) {
  const std::vector<std::string> types(2, "f32[2]");
  std::vector<Graph> graphs = graphs_of(types, types, "all_reduce", "");
  EXPECT_EQ(refusal(graphs), "");

  graphs[1] = graphs_of(types, types, "all_reduce", ", largest = 1")[1];
  EXPECT_EQ(refusal(graphs),
            "ranks cannot run together: collective 1 is all_reduce of f32 by 2 ranks, sum for rank 0, "
            "and all_reduce of f32 by 2 ranks, largest for rank 1");

  graphs[1] = parse_graph("graph g {\n  input %x: f32[2]\n  output y = %x\n}");
  EXPECT_EQ(
      refusal(graphs),
      "ranks cannot run together: collective 1 is all_reduce of f32 by 2 ranks, sum for rank 0, and none for rank 1");

  graphs = graphs_of({"f32[1]", "f32[2]"}, {"f32[3]", "f32[3]"}, "all_gather", ", axis = 0, shares = [1, 2]");
  EXPECT_EQ(refusal(graphs), "");
  graphs[1] = graphs_of({"f32[2]", "f32[2]"}, {"f32[4]", "f32[4]"}, "all_gather", ", axis = 0, shares = [2, 2]")[1];
  EXPECT_EQ(refusal(graphs),
            "ranks cannot run together: collective 1 is [*] along axis 0, shares 1, 2, in group 0, 1 for rank 0, and "
            "[*] along axis 0, shares 2, 2, in group 0, 1 for rank 1");

  graphs.resize(1);
  EXPECT_EQ(refusal(graphs), "ranks cannot run together: all_gather of f32 by 2 ranks is with rank 1, and there are 1");
}

TEST(Collectives, OneRankAloneCannotRunThoseOfSeveral) {
  const Graph graph = graphs_of({"f32[2]", "f32[2]"}, {"f32[2]", "f32[2]"}, "all_reduce", "")[0];
  try {
    static_cast<void>(interpret(graph, {{"x", numbers({2}, {1, 2})}}, {}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "all_reduce: all_reduce is of 2 ranks, and one was given");
  }
}

TEST(Collectives, AnErrorOfOneRankEndsAll) {
  // Rank 1 reads a row that its table does not have.
  std::vector<Graph> graphs;
  for (int rank = 0; rank < 3; ++rank)
    graphs.push_back(parse_graph(fmt::format(R"(graph g {{
  input %ids: i32[1]
  input %x: f32[2, 1]
  %1: f32[1, 1] = gather(%x, %ids)
  %2: f32[1, 1] = all_reduce(%1) {{group = [0, 1, 2], rank = {}}}
  output y = %2
}})",
                                             rank)));
  std::vector<RankTensors> given;
  for (int rank = 0; rank < 3; ++rank) {
    HostTensor ids(DType::kI32, {1});
    ids.set(0, rank == 1 ? 7 : 0);
    given.push_back({.inputs = {{"ids", ids}, {"x", numbers({2, 1}, {1, 2})}}});
  }
  EXPECT_THROW(static_cast<void>(interpret_ranks(graphs, given)), Error);
}

TEST(Collectives, TypesAreChecked) {
  const auto expect_refused = [](const std::string& node) {
    SCOPED_TRACE(node);
    EXPECT_THROW(static_cast<void>(parse_graph("graph g {\n  input %x: f32[2, 4]\n  " + node + "\n  output y = %1\n}")),
                 Error);
  };
  expect_refused(
      "%1: f32[3, 4] = all_gather(%x) {group = [0, 1], rank = 0, axis = 0, shares = [1, 2]}");  // not its share
  expect_refused(
      "%1: f32[3, 4] = all_gather(%x) {group = [0, 1], rank = 2, axis = 0, shares = [2, 1]}");  // no such rank
  expect_refused(
      "%1: f32[3, 4] = all_gather(%x) {group = [0, 0], rank = 0, axis = 0, shares = [2, 1]}");  // a rank twice
  expect_refused("%1: f32[2, 4] = all_gather(%x) {group = [0, 1], rank = 0, axis = 0, shares = [2, 0]}");  // no share
  expect_refused("%1: f32[1, 4] = reduce_scatter(%x) {group = [0, 1], rank = 0, axis = 0, shares = [1, 2]}");
  expect_refused(
      "%1: f32[1, 6] = all_to_all(%x) {group = [0, 1], rank = 0, axis = 1, shares = [4, 2], split_axis = 1, split = "
      "[1, 1]}");
  expect_refused("%1: f32[2, 4] = shift(%x) {group = [0, 1], rank = 0, axis = 2, shares = [2, 2]}");
}

}  // namespace
}  // namespace headroom
