// scaled_linear on AMX tiles: y[..., j] = activation((sum_i xq[..., i] wq[j, i]) x_scale[...] w_scale[j] + bias[j])
//
// Shapes   xq[..., k], x_scale[...], wq[n, k], w_scale[n], bias[n] or none -> y[..., n]; k a multiple of 64, n of 32,
// at
//          least 32 rows.
// Dtypes   xq, wq i8 with i32 sums; scales and bias f32; y f32 or, with an activation, bf16; one rounding.
// Layout   xq and x_scale dense; y innermost stride 1. The weight, which must be one of the checkpoint, is packed once.
// Bytes    m*k + n*k + 4*(m + 2*n) + m*n * size
// FLOPs    2*m*n*k on the tiles, 3*m*n and the activation's on the vector unit
//
// Block by block, amx_product_inl.hpp: sums become results while they are in the first-level cache. oneDNN's product
// (scaled_linear_cpu.cpp) writes all columns of its rows as f32 for the scaling to read again, from the second-level
// cache. In cycles for 32 rows by 32 columns at k = 192:
//
//   tile products                          192  12 of 16
//   tiles loaded and stored                160  12 loads of 8, 4 stores of 16
//   scale, bias, rounding to bf16          110  3.5 operations for 16 sums, two a cycle
//   with gelu_tanh                         340  10.5 operations

#include "ir/activation.hpp"
#include "kernels/cpu_kernels.hpp"
#include "kernels/linear_rows.hpp"
#include "kernels/parallel.hpp"
#include "kernels/support.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/activation_avx512_inl.hpp"
#include "kernels/amx_product_inl.hpp"

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
      store(scaled(from, _mm512_mul_ps(scale, scale0), bias0), scaled(from + 16, _mm512_mul_ps(scale, scale1), bias1),
            to);
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
  [[gnu::always_inline]] static void store(__m512 first, __m512 second, Y* to) {
    if constexpr (std::is_same_v<Y, float>) {
      _mm512_storeu_ps(to, first);
      _mm512_storeu_ps(to + 16, second);
    } else {
      const __m512bh packed = _mm512_cvtne2ps_pbh(second, first);
      __m512i bits;
      std::memcpy(&bits, &packed, sizeof bits);
      _mm512_storeu_si512(to, bits);
    }
  }
};

}  // namespace
}  // namespace headroom::amx
HWY_POP_ATTRIBUTES
#endif

namespace headroom {
namespace {

class PreparedAmxScaledLinear final : public PreparedKernel {
 public:
  PreparedAmxScaledLinear(const OpSpec& spec, RowPlan rows, int threads)
      : n_(spec.inputs[2].shape[0]),
        k_(spec.inputs[2].shape[1]),
        y_dtype_(spec.outputs[0].dtype),
        activation_(activation_of(spec.attributes)),
        rows_(std::move(rows)),
        threads_(threads),
        packed_{{2, "amx_tiles", static_cast<std::size_t>(n_ * k_)}} {}

  [[nodiscard]] std::string implementation() const override { return "intrinsics:amx_int8"; }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
#if defined(__x86_64__)
  [[nodiscard]] std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(threads_ * amx::thread_bytes<std::int8_t>(k_));
  }
  void pack(Stream& /*stream*/, std::size_t /*index*/, const void* dense, void* packed) const override {
    amx::pack_weight(n_, k_, static_cast<const std::int8_t*>(dense), static_cast<std::int8_t*>(packed));
  }
  void launch(const LaunchArguments& arguments) const override {
    const amx::Operands operands{
        .k = k_,
        .x_scale = static_cast<const float*>(arguments.inputs[1]),
        .x_scale_stride = rows_.rows.x_stride / k_,
        .w_scale = static_cast<const float*>(arguments.inputs[3]),
        .bias = arguments.inputs.size() > 4 ? static_cast<const float*>(arguments.inputs[4]) : nullptr,
        .y_stride = rows_.rows.y_stride,
        .y = arguments.outputs[0]};
    if (y_dtype_ == DType::kF32) {
      HR_CHECK(activation_ == Activation::kNone);  // supports() declines others
      return multiply(arguments, amx::Scale<Activation::kNone, float>{operands});
    }
    with_activation(activation_, [&](auto form) { multiply(arguments, amx::Scale<form(), std::uint16_t>{operands}); });
  }
#else
  void launch(const LaunchArguments& /*arguments*/) const override {
    HR_CHECK(false);  // supports() declines everywhere else
  }
#endif

 private:
#if defined(__x86_64__)
  template <class F>
  void multiply(const LaunchArguments& arguments, const F& scale) const {
    const amx::Product<std::int8_t> product{
        .n = n_, .k = k_, .weight = static_cast<const std::int8_t*>(arguments.inputs[2])};
    const auto* const x = static_cast<const std::int8_t*>(arguments.inputs[0]);
    parallel_for(threads_, amx::count_pieces(rows_), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      std::byte* const scratch =
          static_cast<std::byte*>(arguments.scratch) + thread * amx::thread_bytes<std::int8_t>(k_);
      amx::multiply_pieces(product, rows_, begin, end, x, scratch, scale);
    });
  }
#endif

  std::int64_t n_, k_;
  DType y_dtype_;
  Activation activation_;
  RowPlan rows_;
  int threads_;
  std::vector<PackedWeight> packed_;
};

class AmxScaledLinear final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "amx.scaled_linear"; }
  [[nodiscard]] Op op() const override { return Op::kScaledLinear; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_amx_op(op(), DType::kI8, spec, target)) return rejection;
    if (Support rejection = check_scaled_dtypes(spec)) return rejection;
    if (spec.outputs[0].dtype == DType::kF32 && activation_of(spec.attributes) != Activation::kNone)
      return Rejection{"takes activations whose results are bf16, not f32"};
    return check_amx_product(spec, 2);
  }

  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return StrideRule::kInnerDense;
  }
  [[nodiscard]] DType compute_type(const OpSpec& /*spec*/) const override { return DType::kI8; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    return std::make_unique<PreparedAmxScaledLinear>(spec, plan_rows(inputs[0], outputs[0]), target.threads);
  }
};

}  // namespace

const Kernel& amx_scaled_linear() {
  static const AmxScaledLinear kernel;
  return kernel;
}

}  // namespace headroom
