// layer_norm:     y = (x - mean) / sqrt(variance + eps)             mean and variance over a row
// rms_norm:       y = x / sqrt(mean(x^2) + eps) * weight            weight[d]
// norm_modulate:  y = layer_norm(x) * (1 + scale) + shift           scale, shift[b, 1, d] (adaLN, Peebles and Xie 2023)
//
// Dtypes     x, y f32 or bf16; the vectors beside them the same or f32; f32 arithmetic, one rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go element by element.
// Bytes      x read and y written once; the vectors come from cache. 6, 4 and 8 FLOPs an element: bound by memory.
//
// A row stays in the registers of its threads (up to 32768 bf16 elements; longer rows are read three times), so mean
// and variance take two passes without reading twice: the one-pass form E[x^2] - E[x]^2 loses all digits where the mean
// is large. Four packs a thread: a row of FLUX (3072 bf16) is 96 threads.

#include "kernels/cuda/row_cache.cuh"
#include "kernels/norm_cuda.hpp"

namespace headroom::cuda {
namespace {

template <Norm kForm, class Row, class T, class S, int kWidth>
__device__ __forceinline__ void normalize(Row& row, const NormRows& rows, const S* scale, const S* shift, T* y) {
  const float count = static_cast<float>(rows.grid.length);
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
  const float inverse = 1.0F / sqrtf(join_row<Sum>(sum) / count + rows.eps);
  if (y == nullptr) return;  // a thread without a row
  row.for_each([&](int pack, float(&x)[kWidth]) {
    float factor[kWidth], offset[kWidth];
    if constexpr (kForm != Norm::kLayer) load(scale + pack * kWidth, factor);
    if constexpr (kForm == Norm::kModulate) load(shift + pack * kWidth, offset);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      x[i] = (x[i] - mean) * inverse;
      if constexpr (kForm == Norm::kRms) x[i] *= factor[i];
      if constexpr (kForm == Norm::kModulate) x[i] = fmaf(x[i], factor[i], x[i] + offset[i]);
    }
    Packs<T, kWidth>::store(x, y + pack * kWidth);
  });
}

template <Norm kForm, class T, class S, int kWidth, bool kCached>
__global__ void norm_kernel(NormRows rows, int packs, const T* x, const S* scale, const S* shift, T* y) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool has_row = index < rows.grid.rows;  // all threads meet at the barriers
  std::int64_t offsets[4];
  find_row(rows.grid, has_row ? index : 0, offsets);
  T* const to = has_row ? y + offsets[3] : nullptr;
  if constexpr (kCached) {
    CachedRow<T, kWidth> row(x + offsets[0], has_row ? packs : 0);
    normalize<kForm, CachedRow<T, kWidth>, T, S, kWidth>(row, rows, scale + offsets[1], shift + offsets[2], to);
  } else {
    StreamedRow<T> row(x + offsets[0], has_row ? packs : 0);
    normalize<kForm, StreamedRow<T>, T, S, 1>(row, rows, scale + offsets[1], shift + offsets[2], to);
  }
}

template <Norm kForm, class T, class S>
void launch_form(cudaStream_t stream, const NormRows& rows, const T* x, const S* scale, const S* shift, T* y) {
  constexpr int kFull = kFullPack<T>;
  const bool wide = rows.grid.length % kFull == 0 && is_aligned(rows.grid, kFull, {x, scale, shift, y});
  const std::int64_t packs = wide ? rows.grid.length / kFull : rows.grid.length;
  const RowBlocks spread = spread_rows(rows.grid.rows, packs);
  if (!is_cacheable(packs)) {
    const auto length = static_cast<int>(rows.grid.length);
    norm_kernel<kForm, T, S, 1, false>
        <<<blocks_along_x(rows.grid.rows), kMostRowThreads, 0, stream>>>(rows, length, x, scale, shift, y);
  } else if (wide) {
    norm_kernel<kForm, T, S, kFull, true>
        <<<spread.blocks, spread.threads, 0, stream>>>(rows, static_cast<int>(packs), x, scale, shift, y);
  } else {
    norm_kernel<kForm, T, S, 1, true>
        <<<spread.blocks, spread.threads, 0, stream>>>(rows, static_cast<int>(packs), x, scale, shift, y);
  }
}

template <class T, class S>
void launch_typed(cudaStream_t stream, const NormRows& rows, const void* x, const void* scale, const void* shift,
                  void* y) {
  const auto* const from = static_cast<const T*>(x);
  const auto* const factor = static_cast<const S*>(scale);
  const auto* const offset = static_cast<const S*>(shift);
  auto* const to = static_cast<T*>(y);
  switch (rows.form) {
    case Norm::kLayer:  // which reads nothing beside x
      return launch_form<Norm::kLayer>(stream, rows, from, from, from, to);
    case Norm::kRms:
      return launch_form<Norm::kRms>(stream, rows, from, factor, factor, to);
    case Norm::kModulate:
      return launch_form<Norm::kModulate>(stream, rows, from, factor, offset, to);
  }
}

}  // namespace

void launch_norm(void* stream, const NormRows& rows, const void* x, const void* scale, const void* shift, void* y) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  auto* const on = static_cast<cudaStream_t>(stream);
  if (!rows.is_bf16)
    launch_typed<float, float>(on, rows, x, scale, shift, y);
  else if (rows.is_side_bf16)
    launch_typed<Bf16, Bf16>(on, rows, x, scale, shift, y);
  else
    launch_typed<Bf16, float>(on, rows, x, scale, shift, y);
  check_launched("cuda norm kernel");
}

}  // namespace headroom::cuda
