// softmax: y[j] = exp(x[j] - max) / sum_k exp(x[k] - max)   over a row, of x times a scale (which attention has)
//
// Dtypes     f32, bf16 or f16 in memory, f32 arithmetic, one rounding. Alignment as for the norms (norm_cuda.cu).
// Bytes      x read and y written once: a row stays in registers (up to 32768 elements in 16 bits; longer rows are read
//            three times). 5 FLOPs an element, one of them an exp: bound by memory.
//
// In 16 bits exp is the hardware's 2^x of x log2(e), off by 1e-6 where what is stored keeps 4e-3. With the library's
// expf and rows shared by three warps, 3072 elements in bf16 ran at 0.82 of a copy (H200).

#include "kernels/cuda/row_cache.cuh"
#include "kernels/norm_cuda.hpp"

namespace headroom::cuda {
namespace {

/// exp(scale * (x - most)). Not scale * x less a product of the largest, which is rounded: for large numbers that
/// misses 0 by more than an exponential takes.
template <class T>
struct Exponential {
  float scale;
  static __device__ __forceinline__ Exponential of(float scale) { return {scale}; }
  __device__ __forceinline__ float operator()(float x, float most) const { return expf(scale * (x - most)); }
};
template <class T>
struct FastExponential {
  float scale;  // times log2(e)
  static __device__ __forceinline__ FastExponential of(float scale) { return {scale * 1.4426950408889634F}; }
  __device__ __forceinline__ float operator()(float x, float most) const {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(scale * (x - most)));
    return power;
  }
};

template <class Row, class T, int kWidth>
__device__ __forceinline__ void soften(Row& row, bool has_row, float scale, T* y) {
  using Exp = std::conditional_t<sizeof(T) == 2, FastExponential<T>, Exponential<T>>;
  const Exp exponential = Exp::of(scale);
  const float sign = scale < 0 ? -1.0F : 1.0F;
  float most = Max::kNeutral;
  row.for_each([&](int, const float(&x)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) most = fmaxf(most, sign * x[i]);
  });
  most = sign * join_row<Max>(most);  // what the scale makes the largest
  float sum = 0;
  row.for_each([&](int, float(&x)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      x[i] = exponential(x[i], most);
      sum += x[i];
    }
  });
  const float inverse = 1.0F / join_row<Sum>(sum);
  if (!has_row) return;
  row.for_each([&](int pack, float(&x)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = (Row::kKeeps ? x[i] : exponential(x[i], most)) * inverse;
    Packs<T, kWidth>::store(x, y + pack * kWidth);
  });
}

template <class T, int kWidth, int kPerThread, int kMostThreads, bool kCached>
__global__ void __launch_bounds__(kMostThreads)
    softmax_kernel(GridRows<2> grid, float scale, int packs, const T* x, T* y) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool has_row = index < grid.rows;  // all threads meet at the barriers
  std::int64_t offsets[2];
  find_row(grid, has_row ? index : 0, offsets);
  const int held = has_row ? packs : 0;
  if constexpr (kCached) {
    CachedRow<T, kWidth, kPerThread> row(x + offsets[0], held);
    soften<CachedRow<T, kWidth, kPerThread>, T, kWidth>(row, has_row, scale, y + offsets[1]);
  } else {
    RereadRow<T> row(x + offsets[0], held);
    soften<RereadRow<T>, T, 1>(row, has_row, scale, y + offsets[1]);
  }
}

template <class T>
void launch_typed(cudaStream_t stream, const SoftmaxRows& rows, const T* x, T* y) {
  constexpr int kFull = kFullPack<T>;
  const bool is_wide = rows.grid.length % kFull == 0 && is_aligned(rows.grid, kFull, {x, y});
  launch_spread<kFull>(
      rows.grid.rows, rows.grid.length, is_wide,
      [&](auto per_thread, auto most_threads, auto width, auto cached, const RowBlocks& spread, int packs) {
        softmax_kernel<T, width(), per_thread(), most_threads(), cached()>
            <<<spread.blocks, spread.threads, 0, stream>>>(rows.grid, rows.scale, packs, x, y);
      });
}

}  // namespace

void launch_softmax(void* stream, const SoftmaxRows& rows, const void* x, void* y) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_type_of(rows.dtype, [&](auto type) {
    using T = decltype(type);
    launch_typed(static_cast<cudaStream_t>(stream), rows, static_cast<const T*>(x), static_cast<T*>(y));
  });
  check_launched("cuda softmax kernel");
}

}  // namespace headroom::cuda
