#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// The interface of rope_cuda and positions_cuda between their host and device halves.
namespace headroom::cuda {

/// A row is a position of one head; operands x, cos, sin, y. The rows of cos and sin are half as long. `heads` rows
/// lie `x_head` and `y_head` elements apart and share their loads of cos and sin.
struct RopeRows {
  DType dtype = DType::kF32;
  DType weight = DType::kF32;  ///< that of x or f32
  bool has_norm = false;       ///< qk_norm_rope; the weight is read by it alone
  float eps = 0;
  std::int64_t heads = 1;
  std::int64_t x_head = 0;
  std::int64_t y_head = 0;
  GridRows<4> grid;
};
/// The longest row that one warp holds: 8 elements a lane if they are read in packs of 2.
inline constexpr std::int64_t kMostRopeLength = 256;
void launch_rope(void* stream, const RopeRows& rows, const void* x, const void* weight, const float* cos,
                 const float* sin, void* y);

}  // namespace headroom::cuda
