// y = activation(sums + bias + residual): the epilogue of a convolution whose library has no kernel for both.
//
// Shapes     y[b, o, h, w], sums and residual as y, bias[o]. Row-major, a row of the grid is a channel's pixels with
//            one element of the bias; channels-last, a pixel's channels.
// Dtypes     sums f32, y and residual f32, bf16 or f16; bias the same or f32; arithmetic in f32, rounded once.
// Bytes      sums and residual read once, y written once.

#include <type_traits>

#include "kernels/conv/convolution_epilogue_cuda.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

/// A pack a thread.
template <class T, class S, int kWidth>
__global__ void __launch_bounds__(kThreads) epilogue_kernel(ConvolutionEpilogue form, std::int64_t packs_per_row,
                                                            const float* sums, const S* bias, const T* residual, T* y) {
  cuda::wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(pack, packs_per_row);
  if (at.quotient >= form.grid.rows) return;
  std::int64_t offsets[4];
  find_row(form.grid, at.quotient, offsets);
  const std::int64_t column = at.remainder * kWidth;
  float values[kWidth], others[kWidth];
  load(sums + offsets[2] + column, values);
  if (form.has_bias && form.grid.repeats[0]) {
    const float one = to_float(bias[offsets[0]]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += one;
  } else if (form.has_bias) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += to_float(bias[offsets[0] + column + i]);
  }
  if (form.has_residual) {
    load(residual + offsets[1] + column, others);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += others[i];
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = activate(form.activation, values[i]);
  Packs<T, kWidth>::store(values, y + offsets[3] + column);
}

}  // namespace

void launch_convolution_epilogue(void* stream, const ConvolutionEpilogue& epilogue, const float* sums, const void* bias,
                                 const void* residual, void* y) {
  if (epilogue.grid.rows * epilogue.grid.length == 0) return;
  with_types_of(epilogue.dtype, epilogue.bias, [&](auto type, auto side) {
    using T = decltype(type);
    using S = decltype(side);
    const auto run = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const std::int64_t packs = epilogue.grid.length / kWidth;
      launch_early(epilogue_kernel<T, S, kWidth>,
                   {blocks_along_x(divide_up(epilogue.grid.rows * packs, kThreads)), kThreads,
                    static_cast<cudaStream_t>(stream)},
                   epilogue, packs, sums, static_cast<const S*>(bias), static_cast<const T*>(residual),
                   static_cast<T*>(y));
    };
    const bool is_wide = epilogue.grid.length % kFullPack<T> == 0 &&
                         is_aligned(epilogue.grid, kFullPack<T>, {epilogue.has_residual ? residual : nullptr, sums, y});
    if (is_wide) return run(std::integral_constant<int, kFullPack<T>>{});
    run(std::integral_constant<int, 1>{});
  });
  check_launched("cuda convolution epilogue kernel");
}

}  // namespace headroom::cuda
