#include "run/ring_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/interpreter.hpp"
#include "ir/ranks/collectives.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

/// The rows of `x` [1, heads, tokens, dim] that a rank has.
HostTensor share_of_rank(const HostTensor& x, const RingAttention& attention, int rank) {
  std::int64_t own = 0;
  for (const TokenPiece& piece : tokens_of(attention, rank)) own += piece.count;
  HostTensor share(x.dtype(), {1, attention.heads, own, attention.head_dim});
  for (std::int64_t head = 0; head < attention.heads; ++head) {
    std::int64_t row = 0;
    for (const TokenPiece& piece : tokens_of(attention, rank))
      for (std::int64_t token = piece.first; token < piece.first + piece.count; ++token, ++row)
        for (std::int64_t i = 0; i < attention.head_dim; ++i)
          share.set((head * own + row) * attention.head_dim + i,
                    x.at((head * attention.tokens + token) * attention.head_dim + i));
  }
  return share;
}

Graph whole_attention(const RingAttention& attention) {
  Graph graph("attention");
  Builder builder(graph);
  const TensorType type{DType::kF32, Shape{1, attention.heads, attention.tokens, attention.head_dim}};
  const ValueId q = graph.add_input("q", type), k = graph.add_input("k", type), v = graph.add_input("v", type);
  graph.add_output("out", builder.attention(q, k, v,
                                            {.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim)),
                                             .causal = attention.causal}));
  return graph;
}

TEST(RingAttention, IsTheAttentionOverAllTokens) {
  for (const int ranks : {1, 2, 3, 4})
    for (const bool causal : {false, true})
      for (const std::int64_t tokens : {8, 13, 22}) {
        SCOPED_TRACE(fmt::format("{} tokens on {} ranks{}", tokens, ranks, causal ? ", causal" : ""));
        const RingAttention attention{
            .tokens = tokens, .heads = 2, .head_dim = 5, .causal = causal, .dtype = DType::kF32, .ranks = ranks};
        const Shape shape{1, attention.heads, tokens, attention.head_dim};
        const std::vector<HostTensor> given = {random_f32(shape, 1), random_f32(shape, 2), random_f32(shape, 3)};
        const OracleResult whole =
            interpret(whole_attention(attention), {{"q", given[0]}, {"k", given[1]}, {"v", given[2]}}, {});
        std::vector<Graph> graphs;
        std::vector<RankTensors> inputs;
        std::vector<const Graph*> compared;
        for (int rank = 0; rank < ranks; ++rank) {
          graphs.push_back(build_ring_attention(attention, rank));
          inputs.push_back({.inputs = {{"q", share_of_rank(given[0], attention, rank)},
                                       {"k", share_of_rank(given[1], attention, rank)},
                                       {"v", share_of_rank(given[2], attention, rank)}}});
        }
        for (const Graph& graph : graphs) compared.push_back(&graph);
        require_equal_collectives(compared);
        const std::vector<OracleResult> shared = interpret_ranks(graphs, inputs);
        const HostTensor& expected = whole.outputs.at("out");
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_LE(relative_l2(shared[static_cast<std::size_t>(rank)].outputs.at("out"),
                                share_of_rank(expected, attention, rank)),
                    1e-6);
      }
}

TEST(RingAttention, GivesEachRankAPieceFromEitherEndInCausalOrder) {
  const RingAttention attention{.tokens = 40, .causal = true, .ranks = 2};
  const std::vector<TokenPiece> first = tokens_of(attention, 0), second = tokens_of(attention, 1);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].first, 0);
  EXPECT_EQ(first[1].first, 30);
  EXPECT_EQ(second[0].first, 10);
  EXPECT_EQ(second[1].first, 20);
}

TEST(RingAttention, NeedsAPieceForEachRank) {
  EXPECT_EQ(message_of([] { (void)build_ring_attention({.tokens = 7, .ranks = 4}, 0); }),
            "7 tokens cannot be shared by 4 ranks: give at least 8");
}

}  // namespace
}  // namespace headroom
