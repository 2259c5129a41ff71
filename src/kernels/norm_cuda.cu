// layer_norm:     y = (x - mean) / sqrt(variance + eps)             mean and variance over a row
// rms_norm:       y = x / sqrt(mean(x^2) + eps) * weight            weight[d]
// norm_modulate:  y = layer_norm(x) * (1 + scale) + shift           scale, shift[b, 1, d] (adaLN, Peebles and Xie 2023)
// gate_residual_norm: sum = residual + gate * x, stored, and norm_modulate(sum); likewise with quantize
// norm_modulate_quantize: the same, then each row in E4M3 with a scale of its own (quantize_cuda.cu)
//
// Dtypes     x, y f32, bf16 or f16; the vectors beside them the same or f32; f32 arithmetic, one rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go element by element.
// Bytes      x read and y written once; the vectors come from cache. 6, 4, 8 and 11 FLOPs an element: bound by memory.
//
// A row stays in the registers of its threads (up to 32768 elements in 16 bits; longer rows are read again for every
// pass), so mean and variance take two passes without reading twice: the one-pass form E[x^2] - E[x]^2 loses all digits
// where the mean is large. A row of FLUX (3072 in 16 bits) is two warps, 6 packs a thread;
// quantized, which takes one meeting more, it is one warp: with two, norm_modulate_quantize ran at 0.52 of a copy
// (H200).

#include "kernels/cuda/float8.cuh"
#include "kernels/cuda/row_cache.cuh"
#include "kernels/norm_cuda.hpp"

namespace headroom::cuda {
namespace {

/// Where a norm's results go: rows in the dtype of x, or in E4M3 with a scale each.
template <Norm kForm, class T>
struct Target {
  T* y;
};
template <class T>
struct Target<Norm::kModulateQuantize, T> {
  std::uint8_t* y;
  float* row_scale;
};

/// The modulated norm of a pack, over x.
template <Norm kForm, class S, int kWidth>
__device__ __forceinline__ void modulate(float (&x)[kWidth], float mean, float inverse, const S* scale,
                                         const S* shift) {
  float factor[kWidth], offset[kWidth];
  if constexpr (kForm != Norm::kLayer) load(scale, factor);
  if constexpr (kForm == Norm::kModulate || kForm == Norm::kModulateQuantize) load(shift, offset);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    x[i] = (x[i] - mean) * inverse;
    if constexpr (kForm == Norm::kRms) x[i] *= factor[i];
    if constexpr (kForm == Norm::kModulate || kForm == Norm::kModulateQuantize)
      x[i] = fmaf(x[i], factor[i], x[i] + offset[i]);
  }
}

template <Norm kForm, class Row, class T, class S, int kWidth>
__device__ __forceinline__ void normalize(Row& row, bool has_row, const NormRows& rows, const S* scale, const S* shift,
                                          const Target<kForm, T>& to) {
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
  if constexpr (kForm != Norm::kModulateQuantize) {
    if (!has_row) return;
    row.for_each([&](int pack, float(&x)[kWidth]) {
      modulate<kForm>(x, mean, inverse, scale + pack * kWidth, shift + pack * kWidth);
      Packs<T, kWidth>::store(x, to.y + pack * kWidth);
    });
  } else {
    float peak = 0;
    row.for_each([&](int pack, float(&x)[kWidth]) {
      modulate<kForm>(x, mean, inverse, scale + pack * kWidth, shift + pack * kWidth);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) peak = largest_magnitude(peak, x[i]);
    });
    const RowScale quantization = scale_of_row(join_row<Peak>(peak));
    if (!has_row) return;
    if (threadIdx.x == 0) *to.row_scale = quantization.scale;
    row.for_each([&](int pack, float(&x)[kWidth]) {
      if constexpr (!Row::kKeeps) modulate<kForm>(x, mean, inverse, scale + pack * kWidth, shift + pack * kWidth);
      quantize(x, quantization);
      store_f8(x, to.y + pack * kWidth);
    });
  }
}

template <Norm kForm, class T, class S, int kWidth, int kPerThread, int kMostThreads, bool kCached>
__global__ void __launch_bounds__(kMostThreads)
    norm_kernel(NormRows rows, int packs, const T* x, const S* scale, const S* shift, Target<kForm, T> to) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool has_row = index < rows.grid.rows;  // all threads meet at the barriers
  std::int64_t offsets[5];
  find_row(rows.grid, has_row ? index : 0, offsets);
  to.y += offsets[3];
  if constexpr (kForm == Norm::kModulateQuantize) to.row_scale += offsets[4];
  scale += offsets[1];
  shift += offsets[2];
  const int held = has_row ? packs : 0;
  if constexpr (kCached) {
    CachedRow<T, kWidth, kPerThread> row(x + offsets[0], held);
    normalize<kForm, CachedRow<T, kWidth, kPerThread>, T, S, kWidth>(row, has_row, rows, scale, shift, to);
  } else {
    RereadRow<T> row(x + offsets[0], held);
    normalize<kForm, RereadRow<T>, T, S, 1>(row, has_row, rows, scale, shift, to);
  }
}

/// norm_modulate_quantize for rows of exactly kWarpPacks packs a lane: a warp for each row, which waits for no other.
/// The row is kept as it is stored until its statistics are known, and then as floats, which takes its registers: three
/// blocks a multiprocessor have enough of them, and run at 0.87 of a copy (H200); four spill a few, and run at 0.79.
constexpr int kWarpPacks = 12;
constexpr int kWarpRowThreads = 128;

template <class T, class S>
__global__ void __launch_bounds__(kWarpRowThreads, 3)
    quantized_norm_kernel(NormRows rows, const T* x, const S* scale, const S* shift, std::uint8_t* q,
                          float* row_scales) {
  constexpr int kWidth = kFullPack<T>;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kWarpRowThreads / 32) + threadIdx.x / 32;
  if (index >= rows.grid.rows) return;  // the whole warp
  std::int64_t offsets[5];
  find_row(rows.grid, index, offsets);
  x += offsets[0] + lane * kWidth;
  scale += offsets[1] + lane * kWidth;
  shift += offsets[2] + lane * kWidth;
  q += offsets[3] + lane * kWidth;
  typename Packs<T, kWidth>::Raw raw[kWarpPacks];
#pragma unroll
  for (int p = 0; p < kWarpPacks; ++p) raw[p] = Packs<T, kWidth>::read(x + p * (32 * kWidth));

  const auto for_each = [&](const auto& visit) {
#pragma unroll
    for (int p = 0; p < kWarpPacks; ++p) {
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[p], values);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) visit(values[i]);
    }
  };
  constexpr float kCount = 32.0F * kWarpPacks * kWidth;
  float sum = 0;
  for_each([&](float value) { sum += value; });
  const float mean = join_warp<Sum>(sum) / kCount;
  float squares = 0;
  for_each([&](float value) { squares = fmaf(value - mean, value - mean, squares); });
  const float inverse = 1.0F / sqrtf(join_warp<Sum>(squares) / kCount + rows.eps);

  float values[kWarpPacks][kWidth];
  float peak = 0;
#pragma unroll
  for (int p = 0; p < kWarpPacks; ++p) {
    Packs<T, kWidth>::expand(raw[p], values[p]);
    modulate<Norm::kModulateQuantize>(values[p], mean, inverse, scale + p * (32 * kWidth), shift + p * (32 * kWidth));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) peak = largest_magnitude(peak, values[p][i]);
  }
  const RowScale quantization = scale_of_row(join_warp<Peak>(peak));
  if (lane == 0) row_scales[offsets[4]] = quantization.scale;
#pragma unroll
  for (int p = 0; p < kWarpPacks; ++p) {
    quantize(values[p], quantization);
    store_f8(values[p], q + p * (32 * kWidth));
  }
}

template <Norm kForm, class T, class S>
void launch_form(cudaStream_t stream, const NormRows& rows, const T* x, const S* scale, const S* shift,
                 const Target<kForm, T>& to) {
  constexpr int kFull = kFullPack<T>;
  const bool is_wide = rows.grid.length % kFull == 0 && is_aligned(rows.grid, kFull, {x, scale, shift, to.y});
  if constexpr (kForm == Norm::kModulateQuantize) {
    if (is_wide && rows.grid.length == 32 * kWarpPacks * kFull) {
      const dim3 blocks = blocks_along_x(divide_up(rows.grid.rows, kWarpRowThreads / 32));
      quantized_norm_kernel<<<blocks, kWarpRowThreads, 0, stream>>>(rows, x, scale, shift, to.y, to.row_scale);
      return;
    }
  }
  launch_spread<kFull>(
      rows.grid.rows, rows.grid.length, is_wide,
      [&](auto per_thread, auto most_threads, auto width, auto cached, const RowBlocks& spread, int packs) {
        norm_kernel<kForm, T, S, width(), per_thread(), most_threads(), cached()>
            <<<spread.blocks, spread.threads, 0, stream>>>(rows, packs, x, scale, shift, to);
      });
}

/// The sum of a gated residual first, then its norm as above.
template <Norm kForm, class T, class S, int kWidth, int kPerThread, int kMostThreads, bool kCached>
__global__ void __launch_bounds__(kMostThreads)
    gated_norm_kernel(GatedNormRows rows, int packs, const T* residual, const S* gate, const T* x, T* sum,
                      const S* scale, const S* shift, Target<kForm, T> to) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool has_row = index < rows.norm.grid.rows;
  std::int64_t offsets[5], gated[3];
  find_row(rows.norm.grid, has_row ? index : 0, offsets);
  find_row(rows.gated, has_row ? index : 0, gated);
  to.y += offsets[3];
  if constexpr (kForm == Norm::kModulateQuantize) to.row_scale += offsets[4];
  scale += offsets[1];
  shift += offsets[2];
  residual += gated[0];
  gate += gated[1];
  sum += gated[2];
  x += offsets[0];
  const int held = has_row ? packs : 0;
  if constexpr (kCached) {
    GatedRow<T, S, kWidth, kPerThread> row(residual, gate, x, sum, held);
    normalize<kForm, GatedRow<T, S, kWidth, kPerThread>, T, S, kWidth>(row, has_row, rows.norm, scale, shift, to);
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < held; i += static_cast<int>(blockDim.x))
      sum[i] = from_float<T>(fmaf(to_float(gate[i]), to_float(x[i]), to_float(residual[i])));
    RereadRow<T> row(sum, held);  // a thread reads what it has written itself
    normalize<kForm, RereadRow<T>, T, S, 1>(row, has_row, rows.norm, scale, shift, to);
  }
}

template <Norm kForm, class T, class S>
void launch_gated_form(cudaStream_t stream, const GatedNormRows& rows, const GatedNormOperands& operands,
                       const Target<kForm, T>& to) {
  constexpr int kFull = kFullPack<T>;
  const auto* const residual = static_cast<const T*>(operands.residual);
  const auto* const gate = static_cast<const S*>(operands.gate);
  const auto* const x = static_cast<const T*>(operands.x);
  const auto* const scale = static_cast<const S*>(operands.scale);
  const auto* const shift = static_cast<const S*>(operands.shift);
  auto* const sum = static_cast<T*>(operands.sum);
  const GridRows<5>& grid = rows.norm.grid;
  const bool is_wide = grid.length % kFull == 0 && is_aligned(grid, kFull, {x, scale, shift, to.y}) &&
                       is_aligned(rows.gated, kFull, {residual, gate, sum});
  launch_spread<kFull>(
      grid.rows, grid.length, is_wide,
      [&](auto per_thread, auto most_threads, auto width, auto cached, const RowBlocks& spread, int packs) {
        gated_norm_kernel<kForm, T, S, width(), per_thread(), most_threads(), cached()>
            <<<spread.blocks, spread.threads, 0, stream>>>(rows, packs, residual, gate, x, sum, scale, shift, to);
      });
}

template <class T, class S>
void launch_typed(cudaStream_t stream, const NormRows& rows, const void* x, const void* scale, const void* shift,
                  void* y, float* row_scales) {
  const auto* const from = static_cast<const T*>(x);
  const auto* const factor = static_cast<const S*>(scale);
  const auto* const offset = static_cast<const S*>(shift);
  auto* const to = static_cast<T*>(y);
  switch (rows.form) {
    case Norm::kLayer:  // which reads nothing beside x
      return launch_form<Norm::kLayer>(stream, rows, from, from, from, {to});
    case Norm::kRms:
      return launch_form<Norm::kRms>(stream, rows, from, factor, factor, {to});
    case Norm::kModulate:
      return launch_form<Norm::kModulate>(stream, rows, from, factor, offset, {to});
    case Norm::kModulateQuantize:
      return launch_form<Norm::kModulateQuantize, T, S>(stream, rows, from, factor, offset,
                                                        {static_cast<std::uint8_t*>(y), row_scales});
  }
}

}  // namespace

void launch_norm(void* stream, const NormRows& rows, const void* x, const void* scale, const void* shift, void* y,
                 float* row_scales) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_types_of(rows.dtype, rows.side, [&](auto type, auto side) {
    launch_typed<decltype(type), decltype(side)>(static_cast<cudaStream_t>(stream), rows, x, scale, shift, y,
                                                 row_scales);
  });
  check_launched("cuda norm kernel");
}

void launch_gated_norm(void* stream, const GatedNormRows& rows, const GatedNormOperands& operands) {
  if (rows.norm.grid.rows * rows.norm.grid.length == 0) return;
  with_types_of(rows.norm.dtype, rows.norm.side, [&](auto type, auto side) {
    using T = decltype(type);
    using S = decltype(side);
    auto* const on = static_cast<cudaStream_t>(stream);
    if (rows.norm.form == Norm::kModulate)
      launch_gated_form<Norm::kModulate, T, S>(on, rows, operands, {static_cast<T*>(operands.y)});
    else
      launch_gated_form<Norm::kModulateQuantize, T, S>(on, rows, operands,
                                                       {static_cast<std::uint8_t*>(operands.y), operands.row_scales});
  });
  check_launched("cuda gate_residual_norm kernel");
}

}  // namespace headroom::cuda
