#include "run/ring_attention.hpp"

#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "passes/ranks/token_sharing.hpp"

// In causal order the sequence has two pieces for each rank: rank r has the pieces r and 2 P - 1 - r. Its own keys need
// the causal mask, in their order. Keys of an earlier rank are visible to both of its pieces, but only their first
// piece is; keys of a later rank are visible, both pieces, to its second piece alone. So every hop is one attention
// without a mask, and half of one over all.

namespace headroom {
namespace {

constexpr int kTokens = 2;  // axis of [1, heads, tokens, head_dim]

/// Results of attention over some of the keys.
struct Partial {
  ValueId out = kNoValue, logsumexp = kNoValue;
};

class RankGraph {
 public:
  RankGraph(const RingAttention& attention, int rank)
      : attention_(attention), rank_(rank), graph_("ring_attention"), builder_(graph_) {
    for (int other = 0; other < attention.ranks; ++other) shares_.push_back(count_of(other));
  }

  Graph build() {
    const TensorType type{attention_.dtype, Shape{1, attention_.heads, count_of(rank_), attention_.head_dim}};
    const ValueId q = graph_.add_input("q", type);
    ValueId k = graph_.add_input("k", type), v = graph_.add_input("v", type);
    const std::int64_t first = tokens_of(attention_, rank_)[0].count;
    Partial front, back;  // of the rank's two pieces of queries; `back` of all where there is one
    for (int hop = 0; hop < attention_.ranks; ++hop) {
      const int from = (rank_ - hop + attention_.ranks) % attention_.ranks;
      const ValueId keys = k, values = v;
      if (hop + 1 < attention_.ranks) {  // before the attention, which may run meanwhile
        k = shift(keys, hop);
        v = shift(values, hop);
      }
      if (!attention_.causal || hop == 0) {
        const Partial all = attend(q, keys, values, attention_.causal);
        if (!attention_.causal || attention_.ranks == 1) {
          back = merge(back, all);
        } else {
          front = tokens(all, 0, first);
          back = tokens(all, first, count_of(rank_) - first);
        }
      } else if (from < rank_) {
        const std::int64_t visible = tokens_of(attention_, from)[0].count;
        const Partial all = attend(q, slice(keys, 0, visible), slice(values, 0, visible), false);
        front = merge(front, tokens(all, 0, first));
        back = merge(back, tokens(all, first, count_of(rank_) - first));
      } else {
        back = merge(back, attend(slice(q, first, count_of(rank_) - first), keys, values, false));
      }
    }
    graph_.add_output("out", front.out == kNoValue ? back.out : builder_.concat({front.out, back.out}, kTokens));
    return std::move(graph_);
  }

 private:
  [[nodiscard]] std::int64_t count_of(int rank) const {
    std::int64_t count = 0;
    for (const TokenPiece& piece : tokens_of(attention_, rank)) count += piece.count;
    return count;
  }

  ValueId slice(ValueId x, std::int64_t start, std::int64_t count) { return builder_.slice(x, kTokens, start, count); }
  Partial tokens(const Partial& of, std::int64_t start, std::int64_t count) {
    return {slice(of.out, start, count), slice(of.logsumexp, start, count)};
  }

  Partial attend(ValueId q, ValueId k, ValueId v, bool causal) {
    const double scale = 1 / std::sqrt(static_cast<double>(attention_.head_dim));
    if (attention_.ranks == 1) return {builder_.attention(q, k, v, {.scale = scale, .causal = causal})};
    const auto [out, logsumexp] = builder_.attention_and_logsumexp(q, k, v, {.scale = scale, .causal = causal});
    return {out, logsumexp};
  }

  /// Over the keys of both. The result is merged with the next, so it needs the sum as well.
  Partial merge(const Partial& a, const Partial& b) {
    if (a.out == kNoValue) return b;
    const ValueId outs = builder_.concat({as_part(a.out), as_part(b.out)}, 0);
    const ValueId sums = builder_.concat({as_part(a.logsumexp), as_part(b.logsumexp)}, 0);
    const std::vector<ValueId> merged =
        builder_.emit(Op::kMergeAttention, {outs, sums}, {{attr::kAxis, 0}, {attr::kLogsumexp, true}});
    return {merged[0], merged[1]};
  }
  /// [...] -> [1, ...]
  ValueId as_part(ValueId x) {
    Ints extents = {1};
    for (const std::int64_t extent : builder_.shape(x).dims()) extents.push_back(extent);
    return builder_.reshape(x, std::move(extents));
  }

  /// What this rank holds after a hop: from the previous rank, what that held before.
  ValueId shift(ValueId x, int hop) {
    Ints group, shares;
    for (int rank = 0; rank < attention_.ranks; ++rank) {
      group.push_back(rank);
      shares.push_back(shares_[static_cast<std::size_t>((rank - hop + attention_.ranks) % attention_.ranks)]);
    }
    return builder_.emit(Op::kShift, {x},
                         {{attr::kGroup, std::move(group)},
                          {attr::kRank, rank_},
                          {attr::kAxis, kTokens},
                          {attr::kShares, std::move(shares)}})[0];
  }

  RingAttention attention_;
  int rank_;
  Graph graph_;
  Builder builder_;
  Ints shares_;  // the tokens of each rank
};

}  // namespace

double RingAttention::flops() const {
  const auto n = static_cast<double>(tokens);
  const double pairs = causal ? n * (n + 1) / 2 : n * n;
  return 4 * pairs * static_cast<double>(heads) * static_cast<double>(head_dim);
}

std::vector<TokenPiece> tokens_of(const RingAttention& attention, int rank) {
  const bool has_two = attention.causal && attention.ranks > 1;
  const int pieces = has_two ? 2 * attention.ranks : attention.ranks;
  const auto piece = [&](int index) {
    return TokenPiece{first_of_share(attention.tokens, index, pieces), share_of(attention.tokens, index, pieces)};
  };
  if (!has_two) return {piece(rank)};
  return {piece(rank), piece(pieces - 1 - rank)};
}

Graph build_ring_attention(const RingAttention& attention, int rank) {
  HR_CHECK(rank >= 0 && rank < attention.ranks);
  if (attention.tokens < std::int64_t{2} * attention.ranks)
    fail_usage("{} tokens cannot be shared by {} ranks: give at least {}", attention.tokens, attention.ranks,
               2 * attention.ranks);
  return RankGraph(attention, rank).build();
}

}  // namespace headroom
