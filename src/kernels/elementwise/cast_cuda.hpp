#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// The interface of cast_cuda and positions_cuda between their host and device halves.
namespace headroom::cuda {

/// Operands x, y.
struct CastRows {
  DType from = DType::kF32;
  DType to = DType::kF32;
  GridRows<2> grid;
};
void launch_cast(void* stream, const CastRows& rows, const void* x, void* y);

inline constexpr int kMostRopeAxes = 8;
/// ids[s, axes] -> cos, sin[s, half]; strides in elements.
struct RopeTable {
  DType ids = DType::kF32;
  std::int64_t positions = 0;
  int axes = 0;
  int extents[kMostRopeAxes] = {};  ///< columns of cos (half of d) for each axis
  int half = 0;                     ///< their sum
  double theta = 0;
  std::int64_t ids_strides[2] = {};
  std::int64_t cos_row = 0;
  std::int64_t sin_row = 0;
};
void launch_rope_table(void* stream, const RopeTable& table, const void* ids, float* cos, float* sin);

/// t[b] -> [cos, sin][b, 2 * half]; strides in elements.
struct TimestepEmbedding {
  DType time = DType::kF32;
  std::int64_t batch = 0;
  int half = 0;
  double scale = 1;
  double max_period = 0;
  std::int64_t time_stride = 0;
  std::int64_t row = 0;
};
void launch_timestep_embedding(void* stream, const TimestepEmbedding& embedding, const void* time, float* y);

}  // namespace headroom::cuda
