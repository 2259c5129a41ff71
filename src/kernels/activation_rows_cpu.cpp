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
struct Activate {
  HWY_INLINE Vector operator()(Vector x) const {
    if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh_of<kPrecision>(x);
    if constexpr (kActivation == Activation::kGelu) return gelu_erf_of<kPrecision>(x);
    if constexpr (kActivation == Activation::kSilu) return silu_of<kPrecision>(x);
    return x;
  }
};

template <Activation kActivation, class T>
void rows_of(std::int64_t rows, std::int64_t n, const float* x, T* y, std::int64_t y_stride) {
  for (std::int64_t row = 0; row < rows; ++row)
    map_row(n, Activate<kActivation, precision_of<T>()>{}, y + row * y_stride, x + row * n);
}

template <class T>
void rows_typed(Activation activation, std::int64_t rows, std::int64_t n, const float* x, T* y, std::int64_t y_stride) {
  switch (activation) {
    case Activation::kNone:
      return rows_of<Activation::kNone>(rows, n, x, y, y_stride);
    case Activation::kGeluTanh:
      return rows_of<Activation::kGeluTanh>(rows, n, x, y, y_stride);
    case Activation::kGelu:
      return rows_of<Activation::kGelu>(rows, n, x, y, y_stride);
    case Activation::kSilu:
      return rows_of<Activation::kSilu>(rows, n, x, y, y_stride);
  }
}

void rows(Activation activation, std::int64_t count, std::int64_t n, const float* x, DType y_dtype, void* y,
          std::int64_t y_stride) {
  if (y_dtype == DType::kF32) return rows_typed(activation, count, n, x, static_cast<float*>(y), y_stride);
  rows_typed(activation, count, n, x, static_cast<Bf16*>(y), y_stride);
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

Activation parse_activation(std::string_view name) {
  if (name == "none") return Activation::kNone;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGelu;
  HR_CHECK(name == "silu");
  return Activation::kSilu;
}

void activate_rows(Activation activation, std::int64_t rows, std::int64_t n, const float* x, DType y_dtype, void* y,
                   std::int64_t y_stride) {
  HR_CHECK(y_dtype == DType::kF32 || y_dtype == DType::kBF16);
  HWY_DYNAMIC_DISPATCH(rows)(activation, rows, n, x, y_dtype, y, y_stride);
}

}  // namespace headroom
#endif
