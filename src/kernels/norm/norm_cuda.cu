// layer_norm:     y = (x - mean) / sqrt(variance + eps) * weight + bias    mean and variance over a row
// rms_norm:       y = x / sqrt(mean(x^2) + eps) * weight            weight[d], bias[d], both optional
// norm_modulate:  y = layer_norm(x) * (1 + scale) + shift           scale, shift[b, 1, d] (adaLN, Peebles and Xie 2023)
//
// Dtypes     x, y f32, bf16 or f16; the per-channel vectors the same or f32; f32 arithmetic, one rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go element by element.
// Bytes      x read and y written once; the vectors come from cache. 6, 4 and 8 FLOPs an element: bound by memory.
//
// A row stays in the registers of its threads (up to 32768 elements in 16 bits; longer rows are read again for every
// pass), so mean and variance take two passes without reading twice: the one-pass form E[x^2] - E[x]^2 loses all digits
// where the mean is large. A row of 3072 in 16 bits is two warps, 6 packs a thread.

#include "kernels/core/cuda/row_cache.cuh"
#include "kernels/norm/norm_cuda.hpp"

namespace headroom::cuda {
namespace {

/// The factor and the term of normalized packs: a form that modulates always has both, others have those that are
/// given.
template <Norm kForm, class S>
struct ScaleAndShift {
  const S* scale;
  const S* shift;

  /// The norm of a pack, over x.
  template <int kWidth>
  __device__ __forceinline__ void apply(float (&x)[kWidth], float mean, float inverse, int pack) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = (x[i] - mean) * inverse;
    float factor[kWidth], offset[kWidth];
    if constexpr (kForm == Norm::kModulate) {
      load(scale + pack * kWidth, factor);
      load(shift + pack * kWidth, offset);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] = fmaf(x[i], factor[i], x[i] + offset[i]);
    } else if (scale != nullptr) {
      load(scale + pack * kWidth, factor);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] *= factor[i];
      if (shift == nullptr) return;
      load(shift + pack * kWidth, offset);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] += offset[i];
    }
  }
};

/// S is the dtype of the vectors, T that of the rows.
template <Norm kForm, class T, class S>
struct Normalize {
  const T* x;
  const S* scale;
  const S* shift;
  T* y;
  float eps;
  float count;  ///< of elements of a row

  template <int kWidth, int kPerThread>
  __device__ __forceinline__ void run(const RowPlace<4>& place) const {
    Row<T, kWidth, kPerThread> row(x + place.offsets[0], place.packs);
    const ScaleAndShift<kForm, S> affine{scale == nullptr ? nullptr : scale + place.offsets[1],
                                         shift == nullptr ? nullptr : shift + place.offsets[2]};
    T* const to = y + place.offsets[3];
    float sum = 0;
    float mean = 0;
    if constexpr (kForm != Norm::kRms) {
      row.for_each([&](int, const float(&x)[kWidth]) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) sum += x[i];
      });
      mean = join_row<Sum>(sum) / count;
      sum = 0;
    }
    row.for_each([&](int, const float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum = fmaf(x[i] - mean, x[i] - mean, sum);
    });
    const float inverse = 1.0F / sqrtf(join_row<Sum>(sum) / count + eps);
    if (!place.exists) return;
    row.for_each([&](int pack, float(&x)[kWidth]) {
      affine.apply(x, mean, inverse, pack);
      Packs<T, kWidth>::store(x, to + pack * kWidth);
    });
  }
};

template <Norm kForm, class T, class S>
void launch_form(cudaStream_t stream, const NormRows& rows, const NormOperands& at) {
  constexpr int kFull = kFullPack<T>;
  const GridRows<4>& grid = rows.grid;
  const bool is_wide = grid.length % kFull == 0 && is_aligned(grid, kFull, {at.x, at.scale, at.shift, at.y});
  launch_rows<T>(stream, grid, is_wide,
                 Normalize<kForm, T, S>{.x = static_cast<const T*>(at.x),
                                        .scale = static_cast<const S*>(at.scale),
                                        .shift = static_cast<const S*>(at.shift),
                                        .y = static_cast<T*>(at.y),
                                        .eps = rows.eps,
                                        .count = static_cast<float>(grid.length)});
}

template <class T, class S>
void launch_typed(cudaStream_t stream, const NormRows& rows, const NormOperands& at) {
  switch (rows.form) {
    case Norm::kLayer:
      return launch_form<Norm::kLayer, T, S>(stream, rows, at);
    case Norm::kRms:
      return launch_form<Norm::kRms, T, S>(stream, rows, at);
    case Norm::kModulate:
      return launch_form<Norm::kModulate, T, S>(stream, rows, at);
  }
}

}  // namespace

void launch_norm(void* stream, const NormRows& rows, const NormOperands& operands) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_types_of(rows.dtype, rows.side, [&](auto type, auto side) {
    launch_typed<decltype(type), decltype(side)>(static_cast<cudaStream_t>(stream), rows, operands);
  });
  check_launched("cuda norm kernel");
}

}  // namespace headroom::cuda
