// GEMMs of up to four rows on a GPU: the linears of a network's time step, once for all tokens.
//
// Shapes     x[m, k], weight[n, k], bias[n] or none -> y[m, n], m up to 4
// Dtypes     f32, bf16 or f16 with f32 sums; the bias the same or f32
// Alignment  rows of whole packs of 16 bytes
// Bytes      those of the weight, each read once; x comes from the first-level cache
// FLOPs      2 * m * n * k
//
// A warp computes kOutputs neighbours of y. Its lanes go over the rows of the weight side by side, 16 bytes at a
// time, and have kAhead of each row in flight, so that a multiprocessor waits for some 100 KB at once. The first
// loads of a constant weight are issued before the previous kernel has ended, so that memory does not idle from one
// such GEMM to the next.

#include <cstdint>

#include "base/tensors/divide_up.hpp"
#include "kernels/conv/gemv.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/cuda/optional_vector.cuh"

namespace headroom::convolutions {
namespace {

constexpr int kThreads = 256, kWarp = 32;
constexpr int kOutputs = 2;  // of a warp
constexpr int kAhead = 4;    // packs of a row that are in flight to a lane

template <class T, int kRows>
__global__ void __launch_bounds__(kThreads)
    few_rows_kernel(FewRows form, const T* x, const T* weight, const void* bias, T* y) {
  using cuda::kFullPack;
  using Packs = cuda::Packs<T, kFullPack<T>>;
  cuda::let_next_begin();
  const int lane = static_cast<int>(threadIdx.x) % kWarp, packs = form.depth / kFullPack<T>;
  const int first =
      (static_cast<int>(blockIdx.x) * (kThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp) * kOutputs;
  const auto read = [&](int output, int pack) {
    const std::int64_t row = first + output < form.outputs ? first + output : form.outputs - 1;
    return Packs::read(weight + row * form.depth + static_cast<std::int64_t>(pack) * kFullPack<T>);
  };
  typename Packs::Raw ahead[kAhead][kOutputs];
  const auto read_first = [&] {
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int i = 0; i < kOutputs; ++i)
        if (lane + a * kWarp < packs) ahead[a][i] = read(i, lane + a * kWarp);
  };
  if (form.has_constant_weight) read_first();
  cuda::wait_alone();
  if (!form.has_constant_weight) read_first();

  float sums[kRows][kOutputs] = {};
  for (int begin = lane; begin < packs; begin += kAhead * kWarp) {
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int pack = begin + a * kWarp, next = pack + kAhead * kWarp;
      if (pack >= packs) break;
      float weights[kOutputs][kFullPack<T>];
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        Packs::expand(ahead[a][i], weights[i]);
        if (next < packs) ahead[a][i] = read(i, next);
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        float values[kFullPack<T>];
        cuda::load(x + (row < form.rows ? row : 0) * form.depth + pack * kFullPack<T>, values);
#pragma unroll
        for (int i = 0; i < kOutputs; ++i)
#pragma unroll
          for (int k = 0; k < kFullPack<T>; ++k) sums[row][i] = fmaf(values[k], weights[i][k], sums[row][i]);
      }
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row)
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      float value = cuda::join_warp<cuda::Sum>(sums[row][i]);
      const int output = first + i;
      if (lane != 0 || row >= form.rows || output >= form.outputs) continue;
      value += cuda::optional_vector_at<T>(bias, form.bias_is_f32, output);
      y[static_cast<std::int64_t>(row) * form.outputs + output] =
          cuda::from_float<T>(cuda::activate(form.activation, value));
    }
}

template <class T, int kRows>
void launch(void* stream, const FewRows& form, const void* x, const void* weight, const void* bias, void* y) {
  constexpr int kOutputsOfBlock = kThreads / kWarp * kOutputs;
  cuda::launch_early(few_rows_kernel<T, kRows>,
                     {.blocks = cuda::blocks_along_x(divide_up(form.outputs, kOutputsOfBlock)),
                      .threads = dim3(kThreads),
                      .stream = static_cast<cudaStream_t>(stream)},
                     form, static_cast<const T*>(x), static_cast<const T*>(weight), bias, static_cast<T*>(y));
}

}  // namespace

void launch_few_rows(void* stream, const FewRows& form, const void* x, const void* weight, const void* bias, void* y) {
  cuda::with_type_of(form.dtype, [&](auto type) {
    using T = decltype(type);
    if (form.rows == 1) return launch<T, 1>(stream, form, x, weight, bias, y);
    if (form.rows == 2) return launch<T, 2>(stream, form, x, weight, bias, y);
    launch<T, kMostFewRows>(stream, form, x, weight, bias, y);
  });
  cuda::check_launched("GEMV kernel");
}

}  // namespace headroom::convolutions
