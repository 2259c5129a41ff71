#include <type_traits>

#include "base/error.hpp"
#include "kernels/activation_rows.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/activation_inl.hpp"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <Activation kActivation, Precision kPrecision>
struct Finish {
  HWY_INLINE Vector operator()(Vector x) const { return activation_of<kActivation, kPrecision>(x); }
  HWY_INLINE Vector operator()(Vector x, Vector bias) const { return (*this)(hn::Add(x, bias)); }
};

/// `bias` is null or a pointer to its elements.
template <Activation kActivation, class T, class B>
void rows_of(const RowFinish& form, std::int64_t rows, const float* x, B bias, T* y) {
  const Finish<kActivation, precision_of<T>()> finish;
  for (std::int64_t row = 0; row < rows; ++row, x += form.columns, y += form.y_stride) {
    if constexpr (std::is_null_pointer_v<B>)
      map_row(form.columns, finish, y, x);
    else
      map_row(form.columns, finish, y, x, bias);
  }
}

template <class T, class B>
void rows_typed(const RowFinish& form, std::int64_t rows, const float* x, B bias, T* y) {
  with_activation(form.activation, [&](auto activation) { rows_of<activation()>(form, rows, x, bias, y); });
}

template <class T>
void rows_biased(const RowFinish& form, std::int64_t rows, const float* x, const void* bias, T* y) {
  if (!form.bias) return rows_typed(form, rows, x, nullptr, y);
  if (*form.bias == DType::kF32) return rows_typed(form, rows, x, static_cast<const float*>(bias), y);
  if constexpr (std::is_same_v<T, Bf16>) rows_typed(form, rows, x, static_cast<const Bf16*>(bias), y);
}

void rows(const RowFinish& form, std::int64_t count, const float* x, const void* bias, void* y) {
  if (form.y_dtype == DType::kF32) return rows_biased(form, count, x, bias, static_cast<float*>(y));
  rows_biased(form, count, x, bias, static_cast<Bf16*>(y));
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

void finish_rows(const RowFinish& form, std::int64_t rows, const float* x, const void* bias, void* y) {
  HR_CHECK(form.y_dtype == DType::kF32 || form.y_dtype == DType::kBF16);
  HR_CHECK(!form.bias || *form.bias == DType::kF32 || *form.bias == form.y_dtype);
  HWY_DYNAMIC_DISPATCH(rows)(form, rows, x, bias, y);
}

}  // namespace headroom
#endif
