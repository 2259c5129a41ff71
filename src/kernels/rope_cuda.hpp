#pragma once

#include <cstdint>

#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of rope_cuda and of positions_cuda: what is prepared and what is launched.
namespace headroom::cuda {

/// A row is one head at one position; operands x, cos, sin, y. The rows of cos and sin are half as long.
struct RopeRows {
  bool is_bf16 = false;
  bool is_weight_bf16 = false;
  bool has_norm = false;  ///< qk_norm_rope; `weight` is read by it alone
  float eps = 0;
  GridRows<4> grid;
};
/// The longest row that one warp holds: 8 elements a lane where they are read in packs of 2.
inline constexpr std::int64_t kMostRopeLength = 256;
void launch_rope(void* stream, const RopeRows& rows, const void* x, const void* weight, const float* cos,
                 const float* sin, void* y);

}  // namespace headroom::cuda
