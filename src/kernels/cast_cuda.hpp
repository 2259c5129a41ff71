#pragma once

#include <cstdint>

#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of cast_cuda and positions_cuda: what is prepared and what is launched.
namespace headroom::cuda {

/// How an element is stored: DType, in a form that device code takes.
enum class Storage : std::uint8_t { kF64, kF32, kF16, kBf16, kF8E4M3, kF8E5M2, kI64, kI32, kI8, kU8, kBool };

/// Operands x, y.
struct CastRows {
  Storage from = Storage::kF32;
  Storage to = Storage::kF32;
  GridRows<2> grid;
};
void launch_cast(void* stream, const CastRows& rows, const void* x, void* y);

inline constexpr int kMostRopeAxes = 8;
/// ids[s, axes] -> cos, sin[s, half]; strides in elements.
struct RopeTable {
  Storage ids = Storage::kF32;
  std::int64_t positions = 0;
  int axes = 0;
  int extents[kMostRopeAxes] = {};  ///< columns of cos (half of d) that each axis gives
  int half = 0;                     ///< their sum
  double theta = 0;
  std::int64_t ids_strides[2] = {};
  std::int64_t cos_row = 0;
  std::int64_t sin_row = 0;
};
void launch_rope_table(void* stream, const RopeTable& table, const void* ids, float* cos, float* sin);

/// t[b] -> [cos, sin][b, 2 * half]; strides in elements.
struct TimestepEmbedding {
  Storage time = Storage::kF32;
  std::int64_t batch = 0;
  int half = 0;
  double scale = 1;
  double max_period = 0;
  std::int64_t time_stride = 0;
  std::int64_t row = 0;
};
void launch_timestep_embedding(void* stream, const TimestepEmbedding& embedding, const void* time, float* y);

}  // namespace headroom::cuda
