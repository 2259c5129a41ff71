// rope:          y[2i]     = x[2i] cos[s, i] - x[2i+1] sin[s, i]        (RoFormer, Su et al. 2021, equation 34)
//                y[2i + 1] = x[2i] sin[s, i] + x[2i+1] cos[s, i]
// qk_norm_rope:  rope(x / sqrt(mean(x^2) + eps) * weight), mean over one head; x[b, s, heads*d] -> y[b, heads, s, d]
//
// Dtypes     x, y f32 or bf16; weight the same or f32; cos, sin[s, d/2] f32; f32 arithmetic, one rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go pair by pair.
// Bytes      x read and y written once. A row of the tables (512 bytes for d = 128) serves all heads of a position,
// which
//            neighbouring threads work on, so it comes from cache. 3 and 7 FLOPs an element: bound by memory.
//
// A head is held by as many lanes of a warp as it has packs (16 for 128 bf16), rounded up to a power of two, and such a
// group takes kHeads heads in a row, all read before the first is looked at; only the first is looked up by division.
// The mean of squares is a butterfly over the lanes. The first version took two heads apart from each other and
// expanded each as it was read, one read under way at a time: 2.2 TB/s for qk_norm_rope and 2.0 for rope (H200, 384
// MiB, copy 4.0).

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/rope_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kHeads = 4;

__device__ __forceinline__ void load_angles(const float* from, float (&to)[1]) { to[0] = *from; }
__device__ __forceinline__ void load_angles(const float* from, float (&to)[2]) {
  const float2 pair = *reinterpret_cast<const float2*>(from);
  to[0] = pair.x, to[1] = pair.y;
}
__device__ __forceinline__ void load_angles(const float* from, float (&to)[4]) { load(from, to); }

/// Where each of kHeads rows from `first` on starts; rows past the end get the place of the last.
__device__ __forceinline__ void find_heads(const GridRows<4>& grid, std::int64_t first,
                                           std::int64_t (&offsets)[kHeads][4]) {
  find_row(grid, first < grid.rows ? first : grid.rows - 1, offsets[0]);
  const int inner = grid.rank - 1;  // the axis along which rows follow each other
  const std::int64_t along = grid.rank < 2 ? first : divide(first, grid.extents[inner]).remainder;
#pragma unroll
  for (int h = 1; h < kHeads; ++h) {
    if (first + h >= grid.rows) {
#pragma unroll
      for (int k = 0; k < 4; ++k) offsets[h][k] = offsets[h - 1][k];
    } else if (grid.rank < 2 || along + h < grid.extents[inner]) {
#pragma unroll
      for (int k = 0; k < 4; ++k) offsets[h][k] = offsets[h - 1][k] + grid.strides[inner < 0 ? 0 : inner][k];
    } else {
      find_row(grid, first + h, offsets[h]);
    }
  }
}

/// kPacks: of one lane.
template <bool kNorm, class T, class S, int kWidth, int kPacks>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(RopeRows rows, int lanes, const T* x, const S* weight, const float* cos, const float* sin, T* y) {
  using Pack = Packs<T, kWidth>;
  const int packs = static_cast<int>(rows.grid.length) / kWidth;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t group =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t first = group * kHeads;
  std::int64_t offsets[kHeads][4];
  find_heads(rows.grid, first, offsets);
  typename Pack::Raw raw[kHeads][kPacks];
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (lane + p * lanes < packs) raw[h][p] = Pack::read(x + offsets[h][0] + (lane + p * lanes) * kWidth);

  float c[kPacks][kWidth / 2], s[kPacks][kWidth / 2];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const bool is_new_position = h == 0 || offsets[h][1] != offsets[h - 1][1] || offsets[h][2] != offsets[h - 1][2];
    float values[kPacks][kWidth];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pack = lane + p * lanes;
      if (pack < packs && is_new_position) {
        load_angles(cos + offsets[h][1] + pack * (kWidth / 2), c[p]);
        load_angles(sin + offsets[h][2] + pack * (kWidth / 2), s[p]);
      }
      if (pack < packs) Pack::expand(raw[h][p], values[p]);
    }
    float inverse = 1.0F;
    if constexpr (kNorm) {
      float squares = 0;
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
          squares = lane + p * lanes < packs ? fmaf(values[p][i], values[p][i], squares) : squares;
      for (int other = lanes / 2; other > 0; other /= 2) squares += __shfl_xor_sync(0xFFFFFFFFU, squares, other);
      inverse = rsqrtf(squares / static_cast<float>(rows.grid.length) + rows.eps);
    }
    if (first + h >= rows.grid.rows) continue;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pack = lane + p * lanes;
      if (pack >= packs) continue;
      float(&value)[kWidth] = values[p];
      if constexpr (kNorm) {
        float scale[kWidth];
        load(weight + pack * kWidth, scale);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) value[i] *= inverse * scale[i];
      }
      float turned[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        turned[2 * i] = fmaf(value[2 * i], c[p][i], -value[2 * i + 1] * s[p][i]);
        turned[2 * i + 1] = fmaf(value[2 * i], s[p][i], value[2 * i + 1] * c[p][i]);
      }
      Pack::store(turned, y + offsets[h][3] + pack * kWidth);
    }
  }
}

template <bool kNorm, class T, class S, int kWidth, int kPacks>
void launch_width(cudaStream_t stream, const RopeRows& rows, const T* x, const S* weight, const float* cos,
                  const float* sin, T* y) {
  const std::int64_t packs = rows.grid.length / kWidth;
  int lanes = 1;
  while (lanes < 32 && lanes < packs) lanes *= 2;
  const std::int64_t blocks = divide_up(divide_up(rows.grid.rows, kHeads), kThreads / lanes);
  rope_kernel<kNorm, T, S, kWidth, kPacks>
      <<<blocks_along_x(blocks), kThreads, 0, stream>>>(rows, lanes, x, weight, cos, sin, y);
}

template <bool kNorm, class T, class S>
void launch_typed(cudaStream_t stream, const RopeRows& rows, const void* x, const void* weight, const float* cos,
                  const float* sin, void* y) {
  constexpr int kFull = kFullPack<T>;
  const auto* const from = static_cast<const T*>(x);
  const auto* const scale = static_cast<const S*>(weight);
  auto* const to = static_cast<T*>(y);
  const bool wide = rows.grid.length % kFull == 0 && is_aligned(rows.grid, kFull, {x, weight, cos, sin, y});
  if (!wide)
    launch_width<kNorm, T, S, 2, kMostRopeLength / 64>(stream, rows, from, scale, cos, sin, to);
  else
    launch_width<kNorm, T, S, kFull, kMostRopeLength / (32 * kFull)>(stream, rows, from, scale, cos, sin, to);
}

}  // namespace

void launch_rope(void* stream, const RopeRows& rows, const void* x, const void* weight, const float* cos,
                 const float* sin, void* y) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  auto* const on = static_cast<cudaStream_t>(stream);
  if (!rows.has_norm && !rows.is_bf16)
    launch_typed<false, float, float>(on, rows, x, nullptr, cos, sin, y);
  else if (!rows.has_norm)
    launch_typed<false, Bf16, Bf16>(on, rows, x, nullptr, cos, sin, y);
  else if (!rows.is_bf16)
    launch_typed<true, float, float>(on, rows, x, weight, cos, sin, y);
  else if (rows.is_weight_bf16)
    launch_typed<true, Bf16, Bf16>(on, rows, x, weight, cos, sin, y);
  else
    launch_typed<true, Bf16, float>(on, rows, x, weight, cos, sin, y);
  check_launched("cuda rope kernel");
}

}  // namespace headroom::cuda
