#pragma once

#include <cstdint>
#include <vector>

#include "base/tensors/dtype.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// Self-attention over a sequence whose tokens ranks share: keys and values pass around the ranks.
struct RingAttention {
  std::int64_t tokens = 0;
  std::int64_t heads = 16, head_dim = 128;
  bool causal = false;
  DType dtype = DType::kF32;
  int ranks = 1;

  /// The FLOPs of both products, over all ranks; in causal order those of the visible keys.
  [[nodiscard]] double flops() const;
};

/// Consecutive tokens.
struct TokenPiece {
  std::int64_t first = 0, count = 0;
};
/// The tokens of a rank, in order. In causal order a rank has a piece from either end, so that all have equal work.
[[nodiscard]] std::vector<TokenPiece> tokens_of(const RingAttention& attention, int rank);

/// The graph of a rank: inputs q, k and v [1, heads, its tokens, head_dim], output `out` of the same type. Throws a
/// usage Error if there are fewer tokens than pieces.
[[nodiscard]] Graph build_ring_attention(const RingAttention& attention, int rank);

}  // namespace headroom
