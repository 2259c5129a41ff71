// The activations as functions of a vector. Guarded as simd_inl.hpp is.

#if defined(HEADROOM_KERNELS_ACTIVATION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_ACTIVATION_INL
#undef HEADROOM_KERNELS_ACTIVATION_INL
#else
#define HEADROOM_KERNELS_ACTIVATION_INL
#endif

#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {

/// max(x, 0); a NaN stays one.
HWY_INLINE Vector relu_of(Vector x) { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(Float())), x); }

/// x / (1 + e^-x)
HWY_INLINE Vector silu_of(Vector x) { return hn::Div(x, hn::Add(hn::Set(Float(), 1.0F), exp_of(hn::Neg(x)))); }

/// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016), as x / (1 + e^-2u): the
/// same, without the cancellation in 1 + tanh(u) for negative x.
HWY_INLINE Vector gelu_tanh_of(Vector x) {
  const Float d;
  const Vector cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.0713548162726F), hn::Set(d, -1.59576912161F));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), exp_of(hn::Mul(x, cubic))));
}

/// x Phi(x), Phi the normal distribution function: 0.5 x (1 + erf(x / sqrt(2))). With t = |x| and u = 1 / (1 + 0.3 t),
/// Phi(-t) = e^(-t^2/2) Q(u): the form of Abramowitz and Stegun 7.1.26 with Q refitted, minimax of degree 9, relative
/// error 2.2e-8 for t in [0, 12]. Phi(x) for positive x is 1 - Phi(-x), which never cancels.
HWY_INLINE Vector gelu_erf_of(Vector x) {
  const Float d;
  const Vector one = hn::Set(d, 1.0F);
  const Vector t = hn::Abs(x);
  const Vector u = hn::Div(one, hn::MulAdd(t, hn::Set(d, 0.3F), one));
  Vector q = hn::Set(d, -0.00757742511F);
  q = hn::MulAdd(q, u, hn::Set(d, 0.0781886257F));
  q = hn::MulAdd(q, u, hn::Set(d, -0.259467625F));
  q = hn::MulAdd(q, u, hn::Set(d, 0.344476019F));
  q = hn::MulAdd(q, u, hn::Set(d, -0.168862824F));
  q = hn::MulAdd(q, u, hn::Set(d, 0.18992555F));
  q = hn::MulAdd(q, u, hn::Set(d, 0.0790649519F));
  q = hn::MulAdd(q, u, hn::Set(d, 0.12510403F));
  q = hn::MulAdd(q, u, hn::Set(d, 0.119123767F));
  q = hn::MulAdd(q, u, hn::Set(d, 2.49408978e-5F));
  const Vector tail = hn::Mul(q, exp_of<ExpRange::kNotPositive>(hn::Mul(hn::Mul(t, t), hn::Set(d, -0.5F))));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)));
}

}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
