// rope:          y[2i]     = x[2i] cos[s, i] - x[2i+1] sin[s, i]        (RoFormer, Su et al. 2021, equation 34)
//                y[2i + 1] = x[2i] sin[s, i] + x[2i+1] cos[s, i]
// qk_norm_rope:  rope(x / sqrt(mean(x^2) + eps) * weight), mean over one head; x[b, s, heads*d] -> y[b, heads, s, d]
//
// Dtypes     x, y f32, bf16 or f16; weight the same or f32; cos, sin[s, d/2] f32; f32 arithmetic, one rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go pair by pair.
// Bytes      x read and y written once, and the tables, whose rows for a position are twice as long as one of its heads
//            in bf16. 3 and 7 FLOPs an element: bound by memory.
//
// A head occupies as many lanes of a warp as it has packs (16 for 128 bf16), rounded up to a power of two. Such a
// group takes kHeads heads of one position, and loads all before it uses the first, with the angles in registers.
// Neighbouring groups take neighbouring positions, so that for each head a block reads and writes one contiguous
// range of memory. The mean of squares is a butterfly over the lanes. Tried before (H200, 384 MiB, copy 4.0 TB/s):
// four rows in memory order, which for rope are successive positions, with the angles read for every head: 0.51 of a
// copy for rope, and 0.76 for qk_norm_rope. Among 3, 4, 6, 8 and 12 heads a group, 6 are fastest for both together:
// 0.92 and 0.90. Blocks of 128 threads run 2 to 3% slower.

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/rope/rope_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kHeads = 6;

__device__ __forceinline__ void load_angles(const float* from, float (&to)[1]) { to[0] = *from; }
__device__ __forceinline__ void load_angles(const float* from, float (&to)[2]) {
  const float2 pair = *reinterpret_cast<const float2*>(from);
  to[0] = pair.x, to[1] = pair.y;
}
__device__ __forceinline__ void load_angles(const float* from, float (&to)[4]) { load(from, to); }

/// kPacks: of one lane, for each head. A group's block along x gives its position, along y its first head.
template <bool kNorm, class T, class S, int kWidth, int kPacks>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(RopeRows rows, int lanes, const T* x, const S* weight, const float* cos, const float* sin, T* y) {
  wait_for_previous();
  using Pack = Packs<T, kWidth>;
  const int packs = static_cast<int>(rows.grid.length) / kWidth;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t position =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + static_cast<int>(threadIdx.x) / lanes;
  const int first = static_cast<int>(blockIdx.y) * kHeads;
  const bool has_position = position < rows.grid.rows;  // all lanes of a warp meet at the shuffles
  const int heads = has_position ? min(kHeads, static_cast<int>(rows.heads) - first) : 0;
  std::int64_t offsets[4];
  find_row(rows.grid, has_position ? position : 0, offsets);
  x += offsets[0] + first * rows.x_head + lane * kWidth;
  y += offsets[3] + first * rows.y_head + lane * kWidth;
  typename Pack::Raw raw[kHeads][kPacks];
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (h < heads && lane + p * lanes < packs) raw[h][p] = Pack::read(x + h * rows.x_head + p * lanes * kWidth);

  float c[kPacks][kWidth / 2], s[kPacks][kWidth / 2];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int pack = lane + p * lanes;
    if (!has_position || pack >= packs) continue;
    load_angles(cos + offsets[1] + pack * (kWidth / 2), c[p]);
    load_angles(sin + offsets[2] + pack * (kWidth / 2), s[p]);
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float values[kPacks][kWidth];
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (h < heads && lane + p * lanes < packs) Pack::expand(raw[h][p], values[p]);
    float inverse = 1.0F;
    if constexpr (kNorm) {
      float squares = 0;
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
        if (h < heads && lane + p * lanes < packs) {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) squares = fmaf(values[p][i], values[p][i], squares);
        }
      for (int other = lanes / 2; other > 0; other /= 2) squares += __shfl_xor_sync(0xFFFFFFFFU, squares, other);
      inverse = rsqrtf(squares / static_cast<float>(rows.grid.length) + rows.eps);
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (h >= heads || lane + p * lanes >= packs) continue;
      float(&value)[kWidth] = values[p];
      if constexpr (kNorm) {
        float scale[kWidth];
        load(weight + (lane + p * lanes) * kWidth, scale);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) value[i] *= inverse * scale[i];
      }
      float turned[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        turned[2 * i] = fmaf(value[2 * i], c[p][i], -value[2 * i + 1] * s[p][i]);
        turned[2 * i + 1] = fmaf(value[2 * i], s[p][i], value[2 * i + 1] * c[p][i]);
      }
      Pack::store(turned, y + h * rows.y_head + p * lanes * kWidth);
    }
  }
}

template <bool kNorm, class T, class S, int kWidth, int kPacks>
void launch_width(cudaStream_t stream, const RopeRows& rows, const T* x, const S* weight, const float* cos,
                  const float* sin, T* y) {
  const std::int64_t packs = rows.grid.length / kWidth;
  int lanes = 1;
  while (lanes < 32 && lanes < packs) lanes *= 2;
  const dim3 blocks(static_cast<unsigned>(divide_up(rows.grid.rows, kThreads / lanes)),
                    static_cast<unsigned>(divide_up(rows.heads, kHeads)));
  launch_early(rope_kernel<kNorm, T, S, kWidth, kPacks>, {blocks, kThreads, stream}, rows, lanes, x, weight, cos, sin,
               y);
}

template <bool kNorm, class T, class S>
void launch_typed(cudaStream_t stream, const RopeRows& rows, const void* x, const void* weight, const float* cos,
                  const float* sin, void* y) {
  constexpr int kFull = kFullPack<T>;
  const auto* const from = static_cast<const T*>(x);
  const auto* const scale = static_cast<const S*>(weight);
  auto* const to = static_cast<T*>(y);
  const bool is_wide = rows.grid.length % kFull == 0 && rows.x_head % kFull == 0 && rows.y_head % kFull == 0 &&
                       is_aligned(rows.grid, kFull, {x, weight, cos, sin, y});
  if (!is_wide)
    launch_width<kNorm, T, S, 2, kMostRopeLength / 64>(stream, rows, from, scale, cos, sin, to);
  else
    launch_width<kNorm, T, S, kFull, kMostRopeLength / (32 * kFull)>(stream, rows, from, scale, cos, sin, to);
}

}  // namespace

void launch_rope(void* stream, const RopeRows& rows, const void* x, const void* weight, const float* cos,
                 const float* sin, void* y) {
  if (rows.grid.rows * rows.grid.length * rows.heads == 0) return;
  with_types_of(rows.dtype, rows.weight, [&](auto type, auto side) {
    using T = decltype(type);
    using S = decltype(side);
    auto* const on = static_cast<cudaStream_t>(stream);
    if (rows.has_norm)
      launch_typed<true, T, S>(on, rows, x, weight, cos, sin, y);
    else
      launch_typed<false, T, T>(on, rows, x, x, cos, sin, y);
  });
  check_launched("cuda rope kernel");
}

}  // namespace headroom::cuda
