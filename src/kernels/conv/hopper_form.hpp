#pragma once

#include <cstddef>

#include "base/tensors/dtype_code.hpp"
#include "ir/op_code.hpp"
#include "kernels/conv/hopper_tile.hpp"
#include "kernels/core/cuda/tensor_map.hpp"

/// Types that the kernel in hopper.cu and its host code share.
namespace headroom::convolutions {

inline constexpr int kSide = 8;        ///< pixels of a block along an axis: 64 are the rows of one multiply-add
inline constexpr int kDepth = 64;      ///< channels of a copy: 128 bytes
inline constexpr int kRowBytes = 128;  ///< of a pixel or an output channel in shared memory
inline constexpr int kPadding = 8;     ///< floats after a row of sums, so that rows begin in other banks
inline constexpr int kMostStages = 16;
inline constexpr int kPhases = 2;

/// The kernel's parameters but for addresses.
struct HopperForm {
  int batch = 0, height = 0, width = 0;  // of y, or of a phase of it
  int outputs = 0;
  int phases = 1;  // of y's pixels along an axis: kPhases where the convolution is transposed
  int taps_y = 1, taps_x = 1, step_y = 1, step_x = 1, dilation_y = 1, dilation_x = 1;
  int top[kPhases] = {}, left[kPhases] = {};  // pixels that a phase reads before its own
  int taps_at_once = 1;                       // of a unit, along x
  int units = 0;                              // of the sums over x
  int shortcut_units = 0;                     // of those over the shortcut, a tap each
  int log_blocks_b = 0, log_blocks_y = 0,
      log_blocks_x = 0;                       // of 8x8 pixels in a tile, along the images and the axes of one
  int tiles_b = 0, tiles_y = 0, tiles_x = 0;  // of pixels
  int column_tiles = 0;                       // of a phase
  int split = 1;
  int share_rows = 0;                   // of sums that a block of a cluster gets from another, at most
  bool is_whole = false;                // one copy of x serves all taps
  int rows = 0, pitch = 0;              // pixels of a copy of x
  int x_bytes = 0, shortcut_bytes = 0;  // of a copy
  int x_stage_bytes = 0, x_stages = 0, weight_stages = 0;
  int shared_bytes = 0;
  Activation activation = Activation::kNone;
  bool bias_is_f32 = false;
  bool has_constant_weight = false;  // the same in all runs

  [[nodiscard]] int tiles() const { return tiles_b * tiles_y * tiles_x * column_tiles * phases * phases; }
};

/// Tensor maps of the operands that the kernel copies by boxes. Without a shortcut its maps are never read.
struct HopperMaps {
  cuda::TensorMap x, weight, shortcut, shortcut_weight;
};

/// Submits the kernel for a tile; `dtype` is bf16 or f16, and bias and residual may be null.
void launch_hopper(void* stream, DType dtype, const HopperTile& tile, const HopperForm& form, const HopperMaps& maps,
                   const void* bias, const void* residual, void* y);

/// How many clusters of its blocks the current device runs at once.
[[nodiscard]] int hopper_clusters_at_once(const HopperTile& tile, const HopperForm& form);

}  // namespace headroom::convolutions
