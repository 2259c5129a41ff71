// layer_norm:     y = (x - mean) / sqrt(variance + eps) * weight + bias    mean and variance over a row
// rms_norm:       y = x / sqrt(mean(x^2) + eps) * weight            weight[d], bias[d], where there are any
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
// where the mean is large. A row of 3072 in 16 bits is two warps, 6 packs a thread;
// quantized, which takes one meeting more, it is one warp: with two, norm_modulate_quantize ran at 0.52 of a copy
// (H200).

#include "kernels/cuda/float8.cuh"
#include "kernels/cuda/row_cache.cuh"
#include "kernels/norm_cuda.hpp"

namespace headroom::cuda {
namespace {

template <Norm kForm>
inline constexpr bool kModulates = kForm == Norm::kModulate || kForm == Norm::kModulateQuantize;

/// What normalized packs are scaled and shifted by: of a form that modulates always, otherwise where it is there.
template <Norm kForm, class S>
struct Beside {
  const S* scale;
  const S* shift;

  /// The norm of a pack, over x.
  template <int kWidth>
  __device__ __forceinline__ void apply(float (&x)[kWidth], float mean, float inverse, int pack) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = (x[i] - mean) * inverse;
    float factor[kWidth], offset[kWidth];
    if constexpr (kModulates<kForm>) {
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

/// S is what stands beside the rows of T.
template <Norm kForm, class T, class S>
struct Normalize {
  static constexpr bool kQuantizes = kForm == Norm::kModulateQuantize;
  using Result = std::conditional_t<kQuantizes, std::uint8_t, T>;
  const T* x;
  const S* scale;
  const S* shift;
  Result* y;
  float* row_scales;
  float eps;
  float count;  ///< of elements of a row

  template <int kWidth, int kPerThread>
  __device__ __forceinline__ void run(const RowPlace<8>& place) const {
    Row<T, kWidth, kPerThread> row(x + place.offsets[0], place.packs);
    normalize<kWidth, kPerThread>(row, place);
  }

  template <int kWidth, int kPerThread, class Held>
  __device__ __forceinline__ void normalize(Held& row, const RowPlace<8>& place) const {
    const Beside<kForm, S> beside{scale == nullptr ? nullptr : scale + place.offsets[1],
                                  shift == nullptr ? nullptr : shift + place.offsets[2]};
    Result* const to = y + place.offsets[3];
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
    const auto apply = [&](int pack, float(&x)[kWidth]) { beside.apply(x, mean, inverse, pack); };
    if constexpr (!kQuantizes) {
      if (!place.exists) return;
      row.for_each([&](int pack, float(&x)[kWidth]) {
        apply(pack, x);
        Packs<T, kWidth>::store(x, to + pack * kWidth);
      });
    } else {
      float peak = 0;
      row.for_each([&](int pack, float(&x)[kWidth]) {
        apply(pack, x);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) peak = largest_magnitude(peak, x[i]);
      });
      const RowScale quantization = scale_of_row(join_row<Peak>(peak));
      if (!place.exists) return;
      if (threadIdx.x == 0) row_scales[place.offsets[4]] = quantization.scale;
      row.for_each([&](int pack, float(&x)[kWidth]) {
        if constexpr (kPerThread == 0) apply(pack, x);
        quantize(x, quantization);
        store_f8(x, to + pack * kWidth);
      });
    }
  }
};

/// The sum of a gated residual first, then its norm.
template <Norm kForm, class T, class S>
struct NormalizeSum {
  Normalize<kForm, T, S> norm;
  const T* residual;
  const S* gate;
  T* sum;

  template <int kWidth, int kPerThread>
  __device__ __forceinline__ void run(const RowPlace<8>& place) const {
    const T* const x = norm.x + place.offsets[0];
    const T* const base = residual + place.offsets[5];
    const S* const factors = gate + place.offsets[6];
    T* const to = sum + place.offsets[7];
    if constexpr (kPerThread > 0) {
      GatedRow<T, S, kWidth, kPerThread> row(base, factors, x, to, place.packs);
      norm.template normalize<kWidth, kPerThread>(row, place);
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < place.packs; i += static_cast<int>(blockDim.x))
        to[i] = from_float<T>(fmaf(to_float(factors[i]), to_float(x[i]), to_float(base[i])));
      RereadRow<T> row(to, place.packs);  // a thread reads what it has written itself
      norm.template normalize<kWidth, kPerThread>(row, place);
    }
  }
};

/// norm_modulate_quantize for rows of exactly kWarpPacks packs a lane: a warp for each row, which waits for no other.
/// The row is kept as it is stored until its statistics are known, and then as floats, which takes its registers: three
/// blocks a multiprocessor have enough of them, and run at 0.87 of a copy (H200); four spill a few, and run at 0.79.
constexpr int kWarpPacks = 12;
constexpr int kWarpRowThreads = 128;

template <class T, class S>
__global__ void __launch_bounds__(kWarpRowThreads, 3)
    quantized_norm_kernel(GridRows<8> grid, Normalize<Norm::kModulateQuantize, T, S> norm) {
  constexpr int kWidth = kFullPack<T>;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kWarpRowThreads / 32) + threadIdx.x / 32;
  if (index >= grid.rows) return;  // the whole warp
  std::int64_t offsets[8];
  find_row(grid, index, offsets);
  const T* const x = norm.x + offsets[0] + lane * kWidth;
  const Beside<Norm::kModulateQuantize, S> beside{norm.scale + offsets[1], norm.shift + offsets[2]};
  std::uint8_t* const q = norm.y + offsets[3] + lane * kWidth;
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
  const float inverse = 1.0F / sqrtf(join_warp<Sum>(squares) / kCount + norm.eps);

  float values[kWarpPacks][kWidth];
  float peak = 0;
#pragma unroll
  for (int p = 0; p < kWarpPacks; ++p) {
    Packs<T, kWidth>::expand(raw[p], values[p]);
    beside.apply(values[p], mean, inverse, p * 32 + lane);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) peak = largest_magnitude(peak, values[p][i]);
  }
  const RowScale quantization = scale_of_row(join_warp<Peak>(peak));
  if (lane == 0) norm.row_scales[offsets[4]] = quantization.scale;
#pragma unroll
  for (int p = 0; p < kWarpPacks; ++p) {
    quantize(values[p], quantization);
    store_f8(values[p], q + p * (32 * kWidth));
  }
}

template <Norm kForm, class T, class S>
void launch_form(cudaStream_t stream, const NormRows& rows, const NormOperands& at) {
  using Work = Normalize<kForm, T, S>;
  constexpr int kFull = kFullPack<T>;
  const GridRows<8>& grid = rows.grid;
  const Work norm{.x = static_cast<const T*>(at.x),
                  .scale = static_cast<const S*>(at.scale),
                  .shift = static_cast<const S*>(at.shift),
                  .y = static_cast<typename Work::Result*>(at.y),
                  .row_scales = at.row_scales,
                  .eps = rows.eps,
                  .count = static_cast<float>(grid.length)};
  const bool is_wide = grid.length % kFull == 0 &&
                       is_aligned(grid, kFull, {at.x, at.scale, at.shift, at.y, at.residual, at.gate, at.sum});
  const bool is_gated = at.residual != nullptr;
  if constexpr (Work::kQuantizes) {
    if (!is_gated && is_wide && grid.length == 32 * kWarpPacks * kFull) {
      const dim3 blocks = blocks_along_x(divide_up(grid.rows, kWarpRowThreads / 32));
      quantized_norm_kernel<<<blocks, kWarpRowThreads, 0, stream>>>(grid, norm);
      return;
    }
  }
  if (!is_gated) return launch_rows<T>(stream, grid, is_wide, norm);
  if constexpr (kModulates<kForm>)
    launch_rows<T>(stream, grid, is_wide,
                   NormalizeSum<kForm, T, S>{norm, static_cast<const T*>(at.residual), static_cast<const S*>(at.gate),
                                             static_cast<T*>(at.sum)});
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
    case Norm::kModulateQuantize:
      return launch_form<Norm::kModulateQuantize, T, S>(stream, rows, at);
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
