#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/attention/hopper_form.hpp"
#include "kernels/core/cuda/tensor_map.hpp"

/// Types that the kernels in hopper_backward.cu and their host code share.
namespace headroom::attentions {

/// The two passes. Each has tiles of tokens whose gradients it sums up, and goes through units of the others.
enum class BackwardPass : std::uint8_t { kKeys, kQueries };

/// Rows of queries are padded to a multiple of this, which tiles and units of them divide.
inline constexpr int kBackwardPadding = 384;

inline constexpr int kMostUnitStages = 4;

/// A query's numbers, as both passes read them: those of a padding row make every probability 0.
struct QueryNumbers {
  float logsumexp = 0;  ///< times log2(e); infinite for a query without keys
  float delta = 0;
};

/// The tile of a pass: 64 tokens for each of `warpgroups`, and the tokens of a unit.
struct BackwardTile {
  int warpgroups = 0, unit = 0, stages = 0;

  [[nodiscard]] int rows() const { return warpgroups * kGroupRows; }
};

/// The parameters of both passes but for addresses.
struct BackwardForm {
  int batch = 0, heads = 0, sharers = 1;  // of queries; and those that share one head of keys
  int queries = 0, keys = 0;
  int padded_queries = 0;
  int diagonal = 0;       // query i sees keys 0..i + diagonal
  int width = kPieceDim;  // of a head in shared memory: 64 or 128
  float scale = 1;
};

/// Boxes: a tile's operands and a unit's, of the scores first, and the results of a warpgroup.
struct BackwardMaps {
  cuda::TensorMap own_scored, own_made;  // k and v, or q and d_out
  cuda::TensorMap unit_scored, unit_made;
  cuda::TensorMap scored_gradient, made_gradient;  // d_k and d_v, or d_q
};

/// Addresses without boxes.
struct BackwardPlaces {
  const float* logsumexp = nullptr;  // [batch, heads, queries]
  const float* delta = nullptr;
  QueryNumbers* numbers = nullptr;  // [batch, heads, padded_queries]
  int* tickets = nullptr;           // of each pass: tiles that blocks have taken
};

/// The tile of a pass for heads of that width.
[[nodiscard]] BackwardTile backward_tile(BackwardPass pass, int width);

/// Submits what both passes read: the numbers of all queries.
void launch_backward_numbers(void* stream, const BackwardForm& form, const BackwardPlaces& places);
/// Submits a pass; `dtype` is bf16 or f16.
void launch_backward_pass(void* stream, DType dtype, BackwardPass pass, const BackwardForm& form,
                          const BackwardMaps& maps, const BackwardPlaces& places);

}  // namespace headroom::attentions
