#include <type_traits>

#include "base/error.hpp"
#include "kernels/core/simd_targets.hpp"
#include "kernels/matmul/activation_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/activation_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"
#include "kernels/elementwise/activation_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <Activation kActivation, Precision kPrecision>
struct FinishRow {
  HWY_INLINE Vector operator()(Vector x) const { return activation_of<kActivation, kPrecision>(x); }
  HWY_INLINE Vector operator()(Vector x, Vector bias) const { return (*this)(hn::Add(x, bias)); }
};
/// The same for a GEMM of quantized rows.
template <Activation kActivation, Precision kPrecision>
struct FinishScaled {
  Vector row_scale;
  HWY_INLINE Vector operator()(Vector x, Vector scale) const {
    return activation_of<kActivation, kPrecision>(hn::Mul(x, hn::Mul(row_scale, scale)));
  }
  HWY_INLINE Vector operator()(Vector x, Vector scale, Vector bias) const {
    return activation_of<kActivation, kPrecision>(hn::MulAdd(x, hn::Mul(row_scale, scale), bias));
  }
};

/// `bias` is one pointer to its elements, or none.
template <Activation kActivation, class T, class... B>
void finish_rows_of(const RowFinish& form, std::int64_t rows, const float* x, GemmScales scales, T* y,
                    const B*... bias) {
  constexpr Precision kPrecision = precision_of<T>();
  for (std::int64_t row = 0; row < rows; ++row, x += form.columns, y += form.y_stride) {
    if (scales.rows == nullptr) {
      map_row(form.columns, FinishRow<kActivation, kPrecision>(), y, x, bias...);
    } else if constexpr ((std::is_same_v<B, float> && ...)) {
      const FinishScaled<kActivation, kPrecision> finish{hn::Set(Float(), scales.rows[row])};
      map_row(form.columns, finish, y, x, scales.columns, bias...);
    }
  }
}

template <class T>
void finish_rows_typed(const RowFinish& form, std::int64_t rows, const float* x, const void* bias, T* y,
                       GemmScales scales) {
  with_activation(form.activation, [&](auto activation) {
    constexpr Activation kActivation = activation();
    if (!form.bias) return finish_rows_of<kActivation>(form, rows, x, scales, y);
    if (*form.bias == DType::kF32)
      return finish_rows_of<kActivation>(form, rows, x, scales, y, static_cast<const float*>(bias));
    if constexpr (std::is_same_v<T, Bf16>)
      finish_rows_of<kActivation>(form, rows, x, scales, y, static_cast<const Bf16*>(bias));
  });
}

void rows(const RowFinish& form, std::int64_t count, const float* x, const void* bias, void* y, GemmScales scales) {
  HR_TAKE_FLOAT_LOOPS(form.y_dtype == DType::kF32, rows(form, count, x, bias, y, scales));
  if constexpr (kHasFloatLoops)
    if (form.y_dtype == DType::kF32) return finish_rows_typed(form, count, x, bias, static_cast<float*>(y), scales);
  finish_rows_typed(form, count, x, bias, static_cast<Bf16*>(y), scales);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(rows);

}  // namespace

void finish_rows(const RowFinish& form, std::int64_t rows, const float* x, const void* bias, void* y,
                 GemmScales scales) {
  HR_CHECK(form.y_dtype == DType::kF32 || form.y_dtype == DType::kBF16);
  HR_CHECK(!form.bias || *form.bias == DType::kF32 || (*form.bias == form.y_dtype && scales.rows == nullptr));
  HWY_DYNAMIC_DISPATCH(rows)(form, rows, x, bias, y, scales);
}

}  // namespace headroom
#endif
