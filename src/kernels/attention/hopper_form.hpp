#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/tensor_map.hpp"

/// Types that the kernel in hopper.cu and its host code share.
namespace headroom::attentions {

inline constexpr int kGroupRows = 64;  ///< queries of a warpgroup: the rows of its multiply-adds
inline constexpr int kRowBytes = 128;  ///< of a piece of a token's head in shared memory
inline constexpr int kPieceDim = 64;   ///< elements of such a piece
inline constexpr int kMostDim = 128;
inline constexpr int kMultiprocessors = 132;  ///< of an H100 or H200
inline constexpr int kMostStages = 4;         ///< of keys and values
inline constexpr int kMostGroups = 3;         ///< warpgroups of a block
inline constexpr int kBiasedStages = 2;       ///< of keys and values where there is a bias
inline constexpr int kMostBiasStages = 4;     ///< of a bias that is copied

/// Pieces of a head of `dim` elements in shared memory.
constexpr int pieces_of(int dim) { return (dim - 1) / kPieceDim + 1; }

/// Elements, of `size` bytes, of a row of sums that blocks send each other: the sums, the numbers that they are
/// relative to, and padding that shifts each row to other banks.
constexpr int sums_pitch(int dim, int size = sizeof(float)) { return dim + 16 / size; }

/// Bytes of a stage of a bias: 16-bit floats.
constexpr int bias_bytes(int queries, int keys) { return queries * keys * 2; }

/// The work of thread blocks. A tile is 64 queries of a head for each of `warpgroups`, and all of its keys, `keys`
/// at a time. A cluster of `split` blocks has `whole` tiles for each block, one after the other, and, if `shares`,
/// one more whose keys they share. Or each of `spread` blocks
/// has `whole` tiles, and the keys of the rest, fewer than there are blocks, are spread evenly over all blocks.
struct HopperTile {
  int warpgroups = 1;
  int keys = 64;
  int split = 1;
  int whole = 1;
  bool shares = false;
  int spread = 0;
  friend bool operator==(const HopperTile&, const HopperTile&) = default;

  [[nodiscard]] int queries() const { return warpgroups * kGroupRows; }
  [[nodiscard]] int tiles_of_cluster() const { return whole * split + (shares ? 1 : 0); }
};

/// What is added to scores, or hides some of them.
enum class HopperBias : std::uint8_t { kNone, kAdded, kMask };

/// The kernel's parameters but for addresses.
struct HopperForm {
  int heads = 0, sharers = 1;  // of queries; and those that share one head of keys
  int all_heads = 0;           // of all batches
  int queries = 0, keys = 0;
  int dim = 0;             // of a multiply-add: 32, 48, 64, 96 or 128; heads are padded with zeros
  int value_dim = 0;       // of the result
  bool is_causal = false;  // some query does not see some key because of its place
  int diagonal = 0;        // query i sees keys 0..i + diagonal
  int most_cut = 1;        // units of a tile's keys, its last ones, that the diagonal or the end of the keys may cut
  int tiles_of_head = 0, tiles = 0;
  int units_of_block = 0, more_units = 0;  // if keys are spread: units of each block, and how many have one more
  int spread = 0;
  int heads_together = 1;  // whose tiles alternate, the last queries first; 1: each head's tiles, first queries first
  int split = 1, whole = 1;
  int shares = 0;
  int share_rows = 0;  // of a shared tile that a block gets from another, at most
  float scale = 1;     // times log2(e)
  int shared_bytes = 0;
  std::int64_t out_batch = 0, out_head = 0, out_token = 0;  // strides of the result
  std::int64_t sum_batch = 0, sum_head = 0;                 // of logsumexp
  std::int64_t bias_batch = 0, bias_head = 0, bias_query = 0;
  HopperBias bias = HopperBias::kNone;
  int bias_stages = 0;          // of one that the copy engine brings, a power of 2; 0: it does not
  bool bias_is_paired = false;  // two keys of it from an even one on may be read at once

  [[nodiscard]] int clusters() const { return (tiles - 1) / (whole * split + shares) + 1; }
  [[nodiscard]] int blocks() const { return spread > 0 ? spread : clusters() * split; }
};

/// Boxes of the operands: queries of a tile, keys and values of a stage, results of a warpgroup, biases of
/// 64 keys for a tile's queries.
struct HopperMaps {
  cuda::TensorMap q, k, v, out;
  cuda::TensorMap bias;  // if it is copied
};

/// Addresses of operands without boxes.
struct HopperPlaces {
  void* out = nullptr;
  float* logsumexp = nullptr;  // may be null
  const void* bias = nullptr;  // of the form's kind
  void* parts = nullptr;       // if keys are spread: sums of two parts of tiles for each block,
  int* given = nullptr;        // and how many parts there are of each of these tiles
};

/// Submits the kernel for a tile; `dtype` is bf16 or f16.
void launch_hopper(void* stream, DType dtype, const HopperTile& tile, const HopperForm& form, const HopperMaps& maps,
                   const HopperPlaces& places);

/// How many clusters of its blocks the current device runs at once.
[[nodiscard]] int hopper_clusters_at_once(const HopperTile& tile, const HopperForm& form);

}  // namespace headroom::attentions
