// quantize: scale = max|x| / 448, q = x * (448 / max|x|) in E4M3, the maximum over the innermost axis
//
// Shapes     x[..., k] -> q[..., k], scale[...]; innermost strides 1, any outside.
// Dtypes     x f32, bf16 or f16; f32 arithmetic, ties to even; equal to the oracle bit for bit.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go element by element.
// Bytes      x read and q written once: a row stays in registers, as it was stored, up to 32768 elements in 16 bits.
//            3 FLOPs an element: bound by memory.

#include "kernels/cuda/float8.cuh"
#include "kernels/cuda/row_cache.cuh"
#include "kernels/quantize_cuda.hpp"

namespace headroom::cuda {
namespace {

template <int kWidth, class Row>
__device__ __forceinline__ void quantize_row(const Row& row, bool has_row, std::uint8_t* q, float* scale) {
  float peak = 0;
  row.for_each([&](int, const float(&x)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) peak = largest_magnitude(peak, x[i]);
  });
  const RowScale quantization = scale_of_row(join_row<Peak>(peak));
  if (!has_row) return;
  if (threadIdx.x == 0) *scale = quantization.scale;
  row.for_each([&](int pack, float(&x)[kWidth]) {
    quantize(x, quantization);
    store_f8(x, q + pack * kWidth);
  });
}

template <class T, int kWidth, int kPerThread, int kMostThreads, bool kCached>
__global__ void __launch_bounds__(kMostThreads)
    quantize_kernel(GridRows<3> grid, int packs, const T* x, std::uint8_t* q, float* row_scales) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool has_row = index < grid.rows;  // all threads meet at the barriers
  std::int64_t offsets[3];
  find_row(grid, has_row ? index : 0, offsets);
  const int held = has_row ? packs : 0;
  if constexpr (kCached) {
    const RawRow<T, kWidth, kPerThread> row(x + offsets[0], held);
    quantize_row<kWidth>(row, has_row, q + offsets[1], row_scales + offsets[2]);
  } else {
    const RereadRow<T> row(x + offsets[0], held);
    quantize_row<1>(row, has_row, q + offsets[1], row_scales + offsets[2]);
  }
}

template <class T>
void launch_typed(cudaStream_t stream, const QuantizeRows& rows, const T* x, std::uint8_t* q, float* row_scales) {
  constexpr int kFull = kFullPack<T>;
  const bool is_wide = rows.grid.length % kFull == 0 && is_aligned(rows.grid, kFull, {x, q});
  launch_spread<kFull>(
      rows.grid.rows, rows.grid.length, is_wide,
      [&](auto per_thread, auto most_threads, auto width, auto cached, const RowBlocks& spread, int packs) {
        quantize_kernel<T, width(), per_thread(), most_threads(), cached()>
            <<<spread.blocks, spread.threads, 0, stream>>>(rows.grid, packs, x, q, row_scales);
      });
}

}  // namespace

void launch_quantize(void* stream, const QuantizeRows& rows, const void* x, void* q, float* row_scales) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_type_of(rows.dtype, [&](auto type) {
    using T = decltype(type);
    launch_typed(static_cast<cudaStream_t>(stream), rows, static_cast<const T*>(x), static_cast<std::uint8_t*>(q),
                 row_scales);
  });
  check_launched("cuda quantize kernel");
}

}  // namespace headroom::cuda
