#pragma once

// The elementwise kernel on a GPU, which elementwise_cuda.cu and functions_cuda.cu instantiate for their ops.
//
// Shapes     any; operands broadcast. Axes that are contiguous in all operands are merged, so dense operands are one
//            row. A row is contiguous in each operand or one repeated element.
// Dtypes     f32, bf16 or f16 in memory (b of three operands may be f32 with any of them), f32 arithmetic, one
//            rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes use packs; a second launch handles the rest of a
//            single row after its last pack. Others go element by element.
// Bytes      each operand once; a broadcast operand comes from cache.
//
// A thread takes kPacks packs, blockDim apart, and loads all of them before it uses one: 132 multiprocessors need 30
// KiB each in flight to sustain 4.8 TB/s (bandwidth times 0.8 us). With one load in flight per thread, add reached
// 3.3 TB/s, gate_residual 2.6, silu 2.0 and gelu 1.8 (H200, 384 MiB tensors, copy 4.0).

#include <type_traits>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/elementwise/elementwise_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 4;

/// The pack of a thread's `p`th turn: where it is in each operand, in elements. Returns whether there is one.
template <int kWidth>
__device__ __forceinline__ bool find_pack(const GridRows<4>& grid, std::int64_t packs_per_row, int p,
                                          std::int64_t (&offsets)[4]) {
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kPacks) + p * kThreads + threadIdx.x;
  if (grid.rank == 0) {  // one row: nothing needs to be divided
#pragma unroll
    for (int k = 0; k < 4; ++k) offsets[k] = grid.repeats[k] ? 0 : pack * kWidth;
    return pack < packs_per_row;
  }
  const Division at = divide(pack, packs_per_row);
  if (at.quotient >= grid.rows) return false;
  find_row(grid, at.quotient, offsets);
#pragma unroll
  for (int k = 0; k < 4; ++k) offsets[k] += grid.repeats[k] ? 0 : at.remainder * kWidth;
  return true;
}

/// A pack, or one element repeated, as it is stored. An op's only operand never repeats.
template <class T, int kWidth, bool kMayRepeat>
struct Operand {
  typename Packs<T, kWidth>::Raw raw;
  T repeated;

  __device__ __forceinline__ void read(const T* from, bool repeats) {
    if (kMayRepeat && repeats)
      repeated = *from;
    else
      raw = Packs<T, kWidth>::read(from);
  }
  __device__ __forceinline__ void expand(bool repeats, float (&to)[kWidth]) const {
    if constexpr (kMayRepeat)
      if (repeats) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) to[i] = to_float(repeated);
        return;
      }
    Packs<T, kWidth>::expand(raw, to);
  }
};

/// kInputs: how many of a, b and c there are.
template <Op kOp, int kInputs, class T, class S, int kWidth>
__global__ void __launch_bounds__(kThreads)
    elementwise_kernel(GridRows<4> grid, Scalars scalars, std::int64_t packs_per_row, const T* a, const S* b,
                       const T* c, T* y) {
  wait_for_previous();
  std::int64_t offsets[kPacks][4];
  bool exists[kPacks];
  Operand<T, kWidth, (kInputs > 1)> first[kPacks], third[kPacks];
  Operand<S, kWidth, true> second[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    exists[p] = find_pack<kWidth>(grid, packs_per_row, p, offsets[p]);
    if (!exists[p]) continue;
    first[p].read(a + offsets[p][0], grid.repeats[0]);
    if constexpr (kInputs > 1) second[p].read(b + offsets[p][1], grid.repeats[1]);
    if constexpr (kInputs > 2) third[p].read(c + offsets[p][2], grid.repeats[2]);
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (!exists[p]) continue;
    float values[kWidth], seconds[kWidth], thirds[kWidth];
    first[p].expand(grid.repeats[0], values);
    if constexpr (kInputs > 1) second[p].expand(grid.repeats[1], seconds);
    if constexpr (kInputs > 2) third[p].expand(grid.repeats[2], thirds);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if constexpr (kInputs == 1) values[i] = formula<kOp>(values[i], scalars.b, scalars.c);
      if constexpr (kInputs == 2) values[i] = formula<kOp>(values[i], seconds[i]);
      if constexpr (kInputs == 3) values[i] = formula<kOp>(values[i], seconds[i], thirds[i]);
    }
    Packs<T, kWidth>::store(values, y + offsets[p][3]);
  }
}

/// Calls launch(grid, width as a constant, elements from the start) for the part of the rows that goes in packs of
/// kFull elements, and for the part that does not.
template <int kFull, class Launch>
void launch_in_packs(const GridRows<4>& grid, bool is_wide, const Launch& launch) {
  using Wide = std::integral_constant<int, kFull>;
  using Single = std::integral_constant<int, 1>;
  const std::int64_t rest = grid.length % kFull;
  if (!is_wide || (rest != 0 && grid.rank > 0)) return launch(grid, Single{}, std::int64_t{0});
  GridRows<4> part = grid;
  part.length = grid.length - rest;
  if (part.length > 0) launch(part, Wide{}, std::int64_t{0});
  if (rest == 0) return;
  part.length = rest;
  launch(part, Single{}, grid.length - rest);
}

template <Op kOp, int kInputs, class T, class S = T>
void launch_op(cudaStream_t stream, const ElementwiseRows& rows, const void* const* in, void* y) {
  // Absent operands are not read; repeated ones are read element by element, from any address.
  const auto wide = [&](int k) { return k >= kInputs || rows.grid.repeats[k] ? nullptr : in[k]; };
  const bool is_wide = is_aligned(rows.grid, kFullPack<T>, {wide(0), wide(1), wide(2), y});
  launch_in_packs<kFullPack<T>>(rows.grid, is_wide, [&](const GridRows<4>& grid, auto width, std::int64_t start) {
    constexpr int kWidth = decltype(width)::value;
    const auto from = [&](auto type, int k) {
      const auto* const operand = static_cast<const decltype(type)*>(k < kInputs ? in[k] : nullptr);
      return operand + (grid.repeats[k] ? 0 : start);
    };
    const std::int64_t packs = grid.length / kWidth;
    const dim3 blocks = blocks_along_x(divide_up(grid.rows * packs, kThreads * kPacks));
    launch_early(elementwise_kernel<kOp, kInputs, T, S, kWidth>, {blocks, kThreads, stream}, grid, rows.scalars, packs,
                 from(T(), 0), from(S(), 1), from(T(), 2), static_cast<T*>(y) + start);
  });
}

}  // namespace
}  // namespace headroom::cuda
