// scaled_linear on AMX tiles: y[..., j] = activation((sum_i xq[..., i] wq[j, i]) x_scale[...] w_scale[j] + bias[j])
//
// Shapes   xq[..., k], x_scale[...], wq[n, k], w_scale[n], bias[n] or none -> y[..., n]; k a multiple of 64, n of 32,
//          at least 32 rows.
// Dtypes   xq, wq i8 with i32 sums; scales and bias f32; y f32 or, with an activation, bf16; one rounding.
// Layout   xq and x_scale dense; y innermost stride 1. The weight, which must be one of the checkpoint, is packed once.
// Bytes    m*k + n*k + 4*(m + 2*n) + m*n * size
// FLOPs    2*m*n*k on the tiles, 3*m*n and the activation's on the vector unit
//
// Block by block (amx_gemm_inl.hpp), sums become results while they are in the first-level cache. oneDNN's GEMM
// (scaled_linear_cpu.cpp) instead writes all columns of its rows as f32, and the scaling reads them again from the
// second-level cache. In cycles for 32 rows by 32 columns at k = 192:
//
//   tile products                          192  12 of 16
//   tiles loaded and stored                160  12 loads of 8, 4 stores of 16
//   scale, bias, rounding to bf16          110  3.5 operations for 16 sums, two a cycle
//   with gelu_tanh                         340  10.5 operations

#include "kernels/core/library_kernel.hpp"
#include "kernels/core/support.hpp"
#include "kernels/matmul/activation_rows.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "kernels/elementwise/activation_avx512_inl.hpp"
#include "kernels/matmul/amx_gemm_inl.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-int8,fma")
namespace headroom::amx {
namespace {

struct Operands {
  std::int64_t k;
  const float* x_scale;
  std::int64_t x_scale_stride;  ///< from one row to the next
  const float* w_scale;
  const float* bias;  ///< or null
  std::int64_t y_stride;
  void* y;
};

/// Turns sums into results. Y is float or Bits.
template <Activation kActivation, class Y>
struct Scale {
  const Operands& operands;

  void operator()(const Block& block, const void* sums) const {
    const float* const w_scale = operands.w_scale + block.column;
    const __m512 scale0 = _mm512_loadu_ps(w_scale), scale1 = _mm512_loadu_ps(w_scale + 16);
    __m512 bias0 = _mm512_setzero_ps(), bias1 = bias0;
    if (operands.bias != nullptr) {
      bias0 = _mm512_loadu_ps(operands.bias + block.column);
      bias1 = _mm512_loadu_ps(operands.bias + block.column + 16);
    }
    const auto* from = static_cast<const std::int32_t*>(sums);
    const float* x_scale = operands.x_scale + block.at.x / operands.k;
    Y* to = static_cast<Y*>(operands.y) + block.at.y + block.column;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const __m512 scale = _mm512_set1_ps(*x_scale);
      store_pair(scaled(from, _mm512_mul_ps(scale, scale0), bias0),
                 scaled(from + 16, _mm512_mul_ps(scale, scale1), bias1), to);
      from += kBlock;
      x_scale += operands.x_scale_stride;
      to += operands.y_stride;
    }
  }

 private:
  [[gnu::always_inline]] static __m512 scaled(const std::int32_t* sums, __m512 scale, __m512 bias) {
    const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums));
    return avx512::activation_of_sum<kActivation>(_mm512_fmadd_ps(sum, scale, bias));
  }
};

}  // namespace
}  // namespace headroom::amx
HWY_POP_ATTRIBUTES
#endif

namespace headroom {
namespace {

KernelPlan plan_scaled_linear_amx([[maybe_unused]] const KernelBinding& binding) {
#if defined(__x86_64__)
  const std::int64_t k = binding.spec.input(Role::kWeight).shape[1];
  const bool is_f32 = binding.spec.outputs[0].dtype == DType::kF32;
  const Activation activation = only_activation_of(binding.spec);
  return amx::plan_gemm<std::int8_t>(
      binding, 2, [=](const LaunchArguments& arguments, const RowPlan& rows, const auto& run) {
        const amx::Operands operands{.k = k,
                                     .x_scale = arguments.input<float>(1),
                                     .x_scale_stride = rows.rows.x_stride / k,
                                     .w_scale = arguments.input<float>(3),
                                     .bias = arguments.optional_input<float>(4),
                                     .y_stride = rows.rows.y_stride,
                                     .y = arguments.output(0)};
        if (is_f32) return run(amx::Scale<Activation::kNone, float>{operands});  // supports() declines others
        with_activation(activation, [&](auto form) { run(amx::Scale<form(), amx::Bits>{operands}); });
      });
#else
  HR_CHECK(false);  // supports() declines everywhere else
#endif
}

Support supports_scaled_linear_amx(const OpSpec& spec, const Target& target) {
  if (Support rejection = check_amx(DType::kI8, spec, target)) return rejection;
  if (Support rejection = check_scaled_linear(spec)) return rejection;
  if (spec.outputs[0].dtype == DType::kF32 && !spec.attributes[attr::kEpilogue].is_empty())
    return Rejection{"takes activations whose results are bf16, not f32"};
  return check_amx_gemm(spec, 2);
}

}  // namespace

const Kernel& amx_scaled_linear() {
  static const LibraryKernel kernel({.name = "amx.scaled_linear",
                                     .op = Op::kScaledLinear,
                                     .supports = supports_scaled_linear_amx,
                                     .plan = plan_scaled_linear_amx});
  return kernel;
}

}  // namespace headroom
