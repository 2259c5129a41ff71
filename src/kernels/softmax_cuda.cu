// softmax: y[j] = exp(x[j] - max) / sum_k exp(x[k] - max)   over a row, of x times a scale (which attention has)
//
// Dtypes     f32 or bf16 in memory, f32 arithmetic, one rounding. Alignment as for the norms (norm_cuda.cu).
// Bytes      x read and y written once: a row stays in registers (up to 32768 bf16 elements; longer rows are read three
//            times). 5 FLOPs an element, one of them an exp: bound by memory.

#include "kernels/cuda/row_cache.cuh"
#include "kernels/norm_cuda.hpp"

namespace headroom::cuda {
namespace {

template <class Row, class T, int kWidth>
__device__ __forceinline__ void soften(Row& row, float scale, T* y) {
  float most = Max::kNeutral;
  row.for_each([&](int, const float(&x)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) most = fmaxf(most, scale * x[i]);
  });
  most = join_row<Max>(most);
  float sum = 0;
  row.for_each([&](int, float(&x)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      x[i] = expf(fmaf(scale, x[i], -most));
      sum += x[i];
    }
  });
  const float inverse = 1.0F / join_row<Sum>(sum);
  if (y == nullptr) return;  // a thread without a row
  row.for_each([&](int pack, float(&x)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = (Row::kKeeps ? x[i] : expf(fmaf(scale, x[i], -most))) * inverse;
    Packs<T, kWidth>::store(x, y + pack * kWidth);
  });
}

template <class T, int kWidth, bool kCached>
__global__ void softmax_kernel(GridRows<2> grid, float scale, int packs, const T* x, T* y) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool has_row = index < grid.rows;  // all threads meet at the barriers
  std::int64_t offsets[2];
  find_row(grid, has_row ? index : 0, offsets);
  T* const to = has_row ? y + offsets[1] : nullptr;
  if constexpr (kCached) {
    CachedRow<T, kWidth> row(x + offsets[0], has_row ? packs : 0);
    soften<CachedRow<T, kWidth>, T, kWidth>(row, scale, to);
  } else {
    StreamedRow<T> row(x + offsets[0], has_row ? packs : 0);
    soften<StreamedRow<T>, T, 1>(row, scale, to);
  }
}

template <class T>
void launch_typed(cudaStream_t stream, const SoftmaxRows& rows, const T* x, T* y) {
  const GridRows<2>& grid = rows.grid;
  constexpr int kFull = kFullPack<T>;
  const bool wide = grid.length % kFull == 0 && is_aligned(grid, kFull, {x, y});
  const std::int64_t packs = wide ? grid.length / kFull : grid.length;
  const RowBlocks spread = spread_rows(grid.rows, packs);
  const auto count = static_cast<int>(packs);
  if (!is_cacheable(packs))
    softmax_kernel<T, 1, false><<<blocks_along_x(grid.rows), kMostRowThreads, 0, stream>>>(
        grid, rows.scale, static_cast<int>(grid.length), x, y);
  else if (wide)
    softmax_kernel<T, kFull, true><<<spread.blocks, spread.threads, 0, stream>>>(grid, rows.scale, count, x, y);
  else
    softmax_kernel<T, 1, true><<<spread.blocks, spread.threads, 0, stream>>>(grid, rows.scale, count, x, y);
}

}  // namespace

void launch_softmax(void* stream, const SoftmaxRows& rows, const void* x, void* y) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  auto* const on = static_cast<cudaStream_t>(stream);
  if (rows.is_bf16)
    launch_typed(on, rows, static_cast<const Bf16*>(x), static_cast<Bf16*>(y));
  else
    launch_typed(on, rows, static_cast<const float*>(x), static_cast<float*>(y));
  check_launched("cuda softmax kernel");
}

}  // namespace headroom::cuda
