#include "base/error.hpp"
#include "kernels/scaled_rows.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scaled_rows_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/activation_inl.hpp"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// One row's elements from product, w_scale and perhaps bias.
template <Activation kActivation, Precision kPrecision>
struct Scaled {
  Vector x_scale;
  HWY_INLINE Vector activated(Vector y) const {
    if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh_of<kPrecision>(y);
    if constexpr (kActivation == Activation::kGelu) return gelu_erf_of<kPrecision>(y);
    if constexpr (kActivation == Activation::kSilu) return silu_of<kPrecision>(y);
    return y;
  }
  HWY_INLINE Vector operator()(Vector product, Vector w_scale) const {
    return activated(hn::Mul(product, hn::Mul(x_scale, w_scale)));
  }
  HWY_INLINE Vector operator()(Vector product, Vector w_scale, Vector bias) const {
    return activated(hn::MulAdd(product, hn::Mul(x_scale, w_scale), bias));
  }
};

struct Rows {
  const ScaledRows& form;
  std::int64_t count;
  const float* product;
  const float* x_scale;
  const float* w_scale;
  const float* bias;
  void* y;
};

template <Activation kActivation, class T>
HWY_INLINE void scale_each(const Rows& rows) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const Scaled<kActivation, precision_of<T>()> scaled{hn::Set(Float(), rows.x_scale[i])};
    const float* product = rows.product + i * rows.form.columns;
    T* y = static_cast<T*>(rows.y) + i * rows.form.y_stride;
    if (rows.bias == nullptr) {
      map_row(rows.form.columns, scaled, y, product, rows.w_scale);
    } else {
      map_row(rows.form.columns, scaled, y, product, rows.w_scale, rows.bias);
    }
  }
}

template <class T>
HWY_INLINE void scale_as(const Rows& rows) {
  switch (rows.form.activation) {
    case Activation::kNone:
      return scale_each<Activation::kNone, T>(rows);
    case Activation::kGeluTanh:
      return scale_each<Activation::kGeluTanh, T>(rows);
    case Activation::kGelu:
      return scale_each<Activation::kGelu, T>(rows);
    case Activation::kSilu:
      return scale_each<Activation::kSilu, T>(rows);
  }
}

void scale(const ScaledRows& form, std::int64_t count, const float* product, const float* x_scale, const float* w_scale,
           const float* bias, void* y) {
  const Rows rows{form, count, product, x_scale, w_scale, bias, y};
  if (form.y_dtype == DType::kF32) return scale_as<float>(rows);
  scale_as<Bf16>(rows);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {
HWY_EXPORT(scale);
}  // namespace

void scale_rows(const ScaledRows& form, std::int64_t rows, const float* product, const float* x_scale,
                const float* w_scale, const float* bias, void* y) {
  HR_CHECK(form.y_dtype == DType::kF32 || form.y_dtype == DType::kBF16);
  HWY_DYNAMIC_DISPATCH(scale)(form, rows, product, x_scale, w_scale, bias, y);
}

}  // namespace headroom
#endif
