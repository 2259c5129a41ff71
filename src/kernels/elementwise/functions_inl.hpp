// Vector functions of the formulas of elementwise ops, in addition to activation_inl.hpp. Guarded as simd_inl.hpp
// is.
//
// Errors: exp 1 ulp, log and tanh 4 (Highway), sigmoid 3, rsqrt 2; the others have the error of one operation or of
// the C library in double. erf, sin, cos, pow and mod are the C library's, lane by lane, 10 to 20 ns an element, for
// arguments of any size: models use them on small tensors.

#if defined(HEADROOM_KERNELS_FUNCTIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_FUNCTIONS_INL
#undef HEADROOM_KERNELS_FUNCTIONS_INL
#else
#define HEADROOM_KERNELS_FUNCTIONS_INL
#endif

#include <cmath>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/core/simd_inl.hpp"
#include "kernels/elementwise/activation_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {

/// e^x over its full range, subnormal results included. x = q ln 2 + r with |r| <= ln(2)/2, e^r as in exp_of(),
/// scaled by 2^q in two steps, each of which is a normal number.
HWY_INLINE Vector full_exp_of(Vector x) {
  const Float d;
  const hn::RebindToSigned<Float> d32;
  const Vector within = hn::Min(hn::Max(x, hn::Set(d, -104.0F)), hn::Set(d, 89.0F));
  const Vector q = hn::Round(hn::Mul(within, hn::Set(d, 1.44269504F)));
  Vector r = hn::NegMulAdd(q, hn::Set(d, 0.693145751953125F), within);
  r = hn::NegMulAdd(q, hn::Set(d, 1.42860677e-6F), r);
  const Vector one = hn::Set(d, 1.0F);
  Vector y = hn::Set(d, 0.00138145978F);
  y = hn::MulAdd(y, r, hn::Set(d, 0.00836871695F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.0416683881F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.166665206F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.499999934F));
  y = hn::MulAdd(hn::MulAdd(y, r, one), r, one);
  const auto exponent = hn::ConvertTo(d32, q);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto power = [&](auto e) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(d32, 127)))); };
  y = hn::Mul(hn::Mul(y, power(half)), power(hn::Sub(exponent, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE Vector full_log_of(Vector x) {
  const Float d;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto is_number = hn::Lt(x, hn::Set(d, kInfinity));
  // Not hn::NaN, which a bf16 that is rounded by an addition would not survive.
  const Vector special = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -kInfinity),
                                        hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
  const Vector positive = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Log(d, x), special);
  return hn::IfThenElse(is_number, positive, x);
}

/// f of each lane, in double. A call, which costs little next to those of f; inlined, every loop would compile it.
template <class F, class... V>
HWY_NOINLINE Vector lane_by_lane(const F& f, V... x) {
  HWY_ALIGN float lane[sizeof...(V)][lanes()];
  HWY_ALIGN float y[lanes()];
  std::size_t operand = 0;
  (hn::Store(x, Float(), lane[operand++]), ...);
  for (std::int64_t i = 0; i < lanes(); ++i) {
    if constexpr (sizeof...(V) == 1) y[i] = static_cast<float>(f(static_cast<double>(lane[0][i])));
    if constexpr (sizeof...(V) == 2)
      y[i] = static_cast<float>(f(static_cast<double>(lane[0][i]), static_cast<double>(lane[1][i])));
  }
  return hn::Load(Float(), y);
}

/// Exact in double, which represents the remainder of two floats; then rounded once.
HWY_INLINE double floored_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

template <Precision kPrecision>
struct Functions : Math<kPrecision> {
  static HWY_INLINE Vector neg(Vector a) { return hn::Neg(a); }
  static HWY_INLINE Vector abs(Vector a) { return hn::Abs(a); }
  static HWY_INLINE Vector exp(Vector a) { return full_exp_of(a); }
  static HWY_INLINE Vector log(Vector a) { return full_log_of(a); }
  static HWY_INLINE Vector sqrt(Vector a) { return hn::Sqrt(a); }
  static HWY_INLINE Vector rsqrt(Vector a) { return hn::Div(hn::Set(Float(), 1.0F), hn::Sqrt(a)); }
  static HWY_INLINE Vector tanh(Vector a) { return hn::IfThenElse(hn::IsNaN(a), a, hn::Tanh(Float(), a)); }
  static HWY_INLINE Vector sigmoid(Vector a) {
    const Vector one = hn::Set(Float(), 1.0F);
    return hn::Div(one, hn::Add(one, full_exp_of(hn::Neg(a))));
  }
  static HWY_INLINE Vector erf(Vector a) {
    return lane_by_lane([](double x) { return std::erf(x); }, a);
  }
  static HWY_INLINE Vector sin(Vector a) {
    return lane_by_lane([](double x) { return std::sin(x); }, a);
  }
  static HWY_INLINE Vector cos(Vector a) {
    return lane_by_lane([](double x) { return std::cos(x); }, a);
  }
  static HWY_INLINE Vector pow(Vector a, Vector b) {
    return lane_by_lane([](double x, double y) { return std::pow(x, y); }, a, b);
  }
  static HWY_INLINE Vector mod(Vector a, Vector b) { return lane_by_lane(floored_mod, a, b); }
  static HWY_INLINE Vector min(Vector a, Vector b) { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b); }
  static HWY_INLINE Vector max(Vector a, Vector b) { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); }
  static HWY_INLINE Vector less(Vector a, Vector b) { return one_where(hn::Lt(a, b)); }
  static HWY_INLINE Vector less_equal(Vector a, Vector b) { return one_where(hn::Le(a, b)); }
  static HWY_INLINE Vector equal(Vector a, Vector b) { return one_where(hn::Eq(a, b)); }

 private:
  static HWY_INLINE Vector one_where(hn::Mask<Float> holds) {
    return hn::IfThenElseZero(holds, hn::Set(Float(), 1.0F));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
