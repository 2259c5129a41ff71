#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/attention/hopper_form.hpp"

/// Types that the kernel in hopper8.cu and its host code share, beyond those of hopper_form.hpp.
namespace headroom::attentions {

inline constexpr int kKeysOf8 = 128;      ///< keys at a time: a row of 128 bytes of the transposed values
inline constexpr int kOnesRows = 8;       ///< behind the values of a stage: ones, to sum up probabilities
inline constexpr int kScaleBytes = 1024;  ///< of the keys' scales of a stage, with padding
inline constexpr int kPartBytes8 = 2;     ///< of a sum in a part of a tile, in f16: a mean of values in e4m3
inline constexpr int kScalePitch = 144;   ///< bytes between those of a thread's columns and of the next thread's

/// Bytes of a stage: keys, values in heads of `dim`, ones, and the keys' scales.
constexpr int stage_bytes_of_8(int dim) { return kKeysOf8 * kRowBytes + (dim + kOnesRows) * kRowBytes + kScaleBytes; }

/// A variant of the kernel, and the work of its blocks: `whole` tiles for each, and one more for each cluster of
/// `split` blocks, which share its keys; or `whole` tiles for each of `spread` blocks, over which the keys of the rest
/// are spread evenly.
struct Hopper8Tile {
  int warpgroups = 3;
  int whole = 1;
  int split = 1;
  int spread = 0;
  friend bool operator==(const Hopper8Tile&, const Hopper8Tile&) = default;

  [[nodiscard]] int queries() const { return warpgroups * kGroupRows; }
};

/// Scales of the operands, with strides of batches and heads.
struct Hopper8Scales {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  std::int64_t q_batch = 0, q_head = 0, k_batch = 0, k_head = 0, v_batch = 0, v_head = 0;
};

/// Submits the kernel for a tile; `scores` is i8 or f8e4m3, `result` bf16 or f16.
void launch_hopper8(void* stream, DType scores, DType result, const Hopper8Tile& tile, const HopperForm& form,
                    const HopperMaps& maps, const HopperPlaces& places, const Hopper8Scales& scales);

}  // namespace headroom::attentions
