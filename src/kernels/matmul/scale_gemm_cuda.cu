// y = activation(sums * x_scale * w_scale + bias) + residual: the epilogue of an FP8 GEMM for which the library
// has none. `sums` are the GEMM's results.
//
// Dtypes     sums and scales f32; y f32, bf16 or f16; bias the same or f32.
// Bytes      sums read and y written once. One element per thread: models on Hopper do not use this kernel.

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/matmul/scale_gemm_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, class S>
__global__ void __launch_bounds__(kThreads)
    scale_gemm_kernel(ScaledGemm form, const float* sums, const float* x_scale, const float* w_scale, const S* bias,
                      const T* residual, T* y) {
  wait_for_previous();
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(element, form.grid.length);
  if (at.quotient >= form.grid.rows) return;
  std::int64_t offsets[6];
  find_row(form.grid, at.quotient, offsets);
  float value = sums[offsets[0] + at.remainder] * x_scale[offsets[1]] * w_scale[offsets[2] + at.remainder];
  if (form.has_bias) value += to_float(bias[offsets[3] + at.remainder]);
  value = activate(form.activation, value);
  if (form.has_residual) value += to_float(residual[offsets[4] + at.remainder]);
  y[offsets[5] + at.remainder] = from_float<T>(value);
}

}  // namespace

void launch_scale_gemm(void* stream, const ScaledGemm& form, const float* sums, const float* x_scale,
                       const float* w_scale, const void* bias, const void* residual, void* y) {
  const std::int64_t elements = form.grid.rows * form.grid.length;
  if (elements == 0) return;
  with_types_of(form.dtype, form.bias, [&](auto type, auto side) {
    using T = decltype(type);
    using S = decltype(side);
    launch_early(scale_gemm_kernel<T, S>,
                 {blocks_along_x(divide_up(elements, kThreads)), kThreads, static_cast<cudaStream_t>(stream)}, form,
                 sums, x_scale, w_scale, static_cast<const S*>(bias), static_cast<const T*>(residual),
                 static_cast<T*>(y));
  });
  check_launched("cuda scale_gemm kernel");
}

}  // namespace headroom::cuda
