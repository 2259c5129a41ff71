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
  HWY_INLINE Vector operator()(Vector product, Vector w_scale) const {
    return activation_of<kActivation, kPrecision>(hn::Mul(product, hn::Mul(x_scale, w_scale)));
  }
  HWY_INLINE Vector operator()(Vector product, Vector w_scale, Vector bias) const {
    return activation_of<kActivation, kPrecision>(hn::MulAdd(product, hn::Mul(x_scale, w_scale), bias));
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
void scale_each(const Rows& rows) {
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
void scale_as(const Rows& rows) {
  with_activation(rows.form.activation, [&](auto activation) { scale_each<activation(), T>(rows); });
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
