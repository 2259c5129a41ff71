// softmax: y[j] = exp(x[j] - max) / sum_k exp(x[k] - max)   over a row
//
// Dtypes     f32, bf16 or f16 in memory, f32 arithmetic, one rounding. Alignment as for the norms (norm_cuda.cu).
// Bytes      x read and y written once: a row stays in registers (up to 32768 elements in 16 bits; longer rows are read
//            three times). 5 FLOPs an element, one of them an exp: bound by memory.
//
// In 16 bits exp(x) is the hardware's 2^(x log2(e)). Its error is 1e-6; the stored result is precise to 4e-3. With the
// library's expf and rows shared by three warps, 3072 elements in bf16 ran at 0.82 of a copy (H200).

#include "kernels/core/cuda/row_cache.cuh"
#include "kernels/norm/norm_cuda.hpp"

namespace headroom::cuda {
namespace {

/// exp(x - most). The difference is taken before the scaling by log2(e). x log2(e) - most log2(e) is rounded: for large
/// x = most it differs from 0 by more than an exponential tolerates.
template <class T>
__device__ __forceinline__ float exponential(float x, float most) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return expf(x - most);
  } else {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(1.4426950408889634F * (x - most)));
    return power;
  }
}

template <class T>
struct Softmax {
  const T* x;
  T* y;

  template <int kWidth, int kPerThread>
  __device__ __forceinline__ void run(const RowPlace<2>& place) const {
    Row<T, kWidth, kPerThread> row(x + place.offsets[0], place.packs);
    T* const to = y + place.offsets[1];
    float most = Max::kNeutral;
    row.for_each([&](int, const float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) most = fmaxf(most, x[i]);
    });
    most = join_row<Max>(most);
    float sum = 0;
    row.for_each([&](int, float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        x[i] = exponential<T>(x[i], most);
        sum += x[i];
      }
    });
    const float inverse = 1.0F / join_row<Sum>(sum);
    if (!place.exists) return;
    row.for_each([&](int pack, float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] = (kPerThread > 0 ? x[i] : exponential<T>(x[i], most)) * inverse;
      Packs<T, kWidth>::store(x, to + pack * kWidth);
    });
  }
};

}  // namespace

void launch_softmax(void* stream, const SoftmaxRows& rows, const void* x, void* y) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_type_of(rows.dtype, [&](auto type) {
    using T = decltype(type);
    const bool is_wide = rows.grid.length % kFullPack<T> == 0 && is_aligned(rows.grid, kFullPack<T>, {x, y});
    launch_rows<T>(static_cast<cudaStream_t>(stream), rows.grid, is_wide,
                   Softmax<T>{static_cast<const T*>(x), static_cast<T*>(y)});
  });
  check_launched("cuda softmax kernel");
}

}  // namespace headroom::cuda
