// linear with an activation, in bf16 on AMX tiles: y[..., j] = activation(sum_i x[..., i] weight[j, i] + bias[j])
//
// Shapes   x[..., k], weight[n, k], bias[n] or none -> y[..., n]; k and n multiples of 32, at least 32 rows.
// Dtypes   bf16 with f32 sums, a bias in f32 or bf16; one rounding, of the activation.
// Layout   x and y: innermost stride 1. The weight, which must be one of the checkpoint, is packed once into tiles.
// Bytes    (m*k + n*k + n + m*n) * 2
// FLOPs    2*m*n*k, and the activation's on the vector unit
//
// Block by block, amx_gemm_inl.hpp. Up to k = 224 a piece's rows and the weights of 32 columns also fit in the
// first-level cache.
//
// Tried, at 5440x192x576 with an activation of 10 cycles for 16 elements: activating one block between the tile
// operations of the next, and pieces of 160 rows; both take as long.

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

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,fma")
namespace headroom::amx {
namespace {

/// Activates sums, with the bias added, into y.
template <Activation kActivation>
struct FinishSums {
  const void* bias;  ///< or null
  DType bias_dtype;
  std::int64_t y_stride;  ///< from one row to the next, in elements
  Bits* y;

  [[nodiscard]] __m512 bias_of(std::int64_t column) const {
    if (bias == nullptr) return _mm512_setzero_ps();
    if (bias_dtype == DType::kF32) return _mm512_loadu_ps(static_cast<const float*>(bias) + column);
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(static_cast<const Bits*>(bias) + column));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }

  void operator()(const Block& block, const void* sums) const {
    const __m512 bias0 = bias_of(block.column), bias1 = bias_of(block.column + 16);
    const auto* from = static_cast<const float*>(sums);
    Bits* to = y + block.at.y + block.column;
    for (std::int64_t row = 0; row < block.rows; ++row, from += kBlock, to += y_stride) {
      const __m512 first = avx512::activation_of_sum<kActivation>(_mm512_add_ps(_mm512_load_ps(from), bias0));
      const __m512 second = avx512::activation_of_sum<kActivation>(_mm512_add_ps(_mm512_load_ps(from + 16), bias1));
      store_pair(first, second, to);
    }
  }
};

}  // namespace
}  // namespace headroom::amx
HWY_POP_ATTRIBUTES
#endif

namespace headroom {
namespace {

KernelPlan plan_linear_amx([[maybe_unused]] const KernelBinding& binding) {
#if defined(__x86_64__)
  const DType bias_dtype = binding.spec.has(Role::kBias) ? binding.spec.input(Role::kBias).dtype : DType::kF32;
  const Activation activation = only_activation_of(binding.spec);
  return amx::plan_gemm<amx::Bits>(binding, 1,
                                   [=](const LaunchArguments& arguments, const RowPlan& rows, const auto& run) {
                                     with_activation(activation, [&](auto form) {
                                       run(amx::FinishSums<form()>{.bias = arguments.optional_input(2),
                                                                   .bias_dtype = bias_dtype,
                                                                   .y_stride = rows.rows.y_stride,
                                                                   .y = arguments.output<amx::Bits>(0)});
                                     });
                                   });
#else
  HR_CHECK(false);  // supports() declines everywhere else
#endif
}

Support supports_linear_amx(const OpSpec& spec, const Target& target) {
  if (Support rejection = check_amx(DType::kBF16, spec, target)) return rejection;
  if (spec.attributes[attr::kEpilogue].is_empty()) return Rejection{"is for linears with an activation"};
  if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
  return check_amx_gemm(spec, 1);
}

}  // namespace

const Kernel& amx_linear() {
  static const LibraryKernel kernel({.name = "amx.linear",
                                     .op = Op::kLinear,
                                     .supports = supports_linear_amx,
                                     .strided = 0b1,
                                     .plan = plan_linear_amx});
  return kernel;
}

}  // namespace headroom
