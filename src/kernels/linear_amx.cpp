// linear with an activation, in bf16 on AMX tiles: y[..., j] = activation(sum_i x[..., i] weight[j, i] + bias[j])
//
// Shapes   x[..., k], weight[n, k], bias[n] or none -> y[..., n]; k and n multiples of 32, at least 32 rows.
// Dtypes   bf16 with f32 sums, a bias in f32 or bf16; one rounding, of the activation.
// Layout   x and y: innermost stride 1. The weight, which must be one of the checkpoint, is packed once into tiles.
// Bytes    (m*k + n*k + n + m*n) * 2
// FLOPs    2*m*n*k, and the activation's on the vector unit
//
// Block by block, amx_product_inl.hpp. Up to k = 224 a piece's rows and the weights of 32 columns also fit in the
// first-level cache.
//
// Tried, at 5440x192x576 with an activation of 10 cycles for 16 elements: activating one block between the products of
// the next, and pieces of 160 rows; both take as long.

#include "ir/activation.hpp"
#include "kernels/activation_rows.hpp"
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
#include <vector>

#include "base/error.hpp"
#include "kernels/activation_avx512_inl.hpp"
#include "kernels/amx_product_inl.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,fma")
namespace headroom::amx {
namespace {

using Bits = std::uint16_t;  // of a bf16

/// Activates sums, with the bias added, into y.
template <Activation kActivation>
struct Finish {
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

class PreparedAmxLinear final : public PreparedKernel {
 public:
  PreparedAmxLinear(const OpSpec& spec, RowPlan rows, int threads)
      : n_(spec.inputs[1].shape[0]),
        k_(spec.inputs[1].shape[1]),
        bias_(spec.inputs.size() > 2 ? spec.inputs[2].dtype : DType::kF32),
        has_bias_(spec.inputs.size() > 2),
        activation_(activation_of(spec.attributes)),
        rows_(std::move(rows)),
        threads_(threads),
        packed_{{1, "amx_tiles", static_cast<std::size_t>(n_ * k_ * 2)}} {}

  [[nodiscard]] std::string implementation() const override { return "intrinsics:amx_bf16"; }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
#if defined(__x86_64__)
  [[nodiscard]] std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(threads_ * amx::thread_bytes<amx::Bits>(k_));
  }
  void pack(Stream& /*stream*/, std::size_t /*index*/, const void* dense, void* packed) const override {
    amx::pack_weight(n_, k_, static_cast<const amx::Bits*>(dense), static_cast<amx::Bits*>(packed));
  }
  void launch(const LaunchArguments& arguments) const override {
    const amx::Product<amx::Bits> product{
        .n = n_, .k = k_, .weight = static_cast<const amx::Bits*>(arguments.inputs[1])};
    const auto* const x = static_cast<const amx::Bits*>(arguments.inputs[0]);
    HR_CHECK(activation_ != Activation::kNone);  // supports() declines it
    with_activation(activation_, [&](auto form) {
      const amx::Finish<form()> finish{.bias = has_bias_ ? arguments.inputs[2] : nullptr,
                                       .bias_dtype = bias_,
                                       .y_stride = rows_.rows.y_stride,
                                       .y = static_cast<amx::Bits*>(arguments.outputs[0])};
      parallel_for(threads_, amx::count_pieces(rows_), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
        amx::multiply_pieces(product, rows_, begin, end, x,
                             static_cast<std::byte*>(arguments.scratch) + thread * amx::thread_bytes<amx::Bits>(k_),
                             finish);
      });
    });
  }
#else
  void launch(const LaunchArguments& /*arguments*/) const override {
    HR_CHECK(false);  // supports() declines everywhere else
  }
#endif

 private:
  std::int64_t n_, k_;
  DType bias_;
  bool has_bias_;
  Activation activation_;
  RowPlan rows_;
  int threads_;
  std::vector<PackedWeight> packed_;
};

class AmxLinear final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "amx.linear"; }
  [[nodiscard]] Op op() const override { return Op::kLinear; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_amx_op(op(), DType::kBF16, spec, target)) return rejection;
    if (activation_of(spec.attributes) == Activation::kNone) return Rejection{"is for products with an activation"};
    return check_amx_product(spec, 1);
  }

  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int input) const override {
    return input == 0 ? StrideRule::kInnerDense : StrideRule::kDense;
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return StrideRule::kInnerDense;
  }
  [[nodiscard]] DType compute_type(const OpSpec& /*spec*/) const override { return DType::kBF16; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    return std::make_unique<PreparedAmxLinear>(spec, plan_rows(inputs[0], outputs[0]), target.threads);
  }
};

}  // namespace

const Kernel& amx_linear() {
  static const AmxLinear kernel;
  return kernel;
}

}  // namespace headroom
