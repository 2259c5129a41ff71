// The formulas of elementwise ops as functions of a vector. Guarded as simd_inl.hpp is.
//
// Each has a form for results that are rounded to bf16 afterwards: shorter polynomials and no refinement of
// reciprocals. Its errors are at most 2^-12, below the rounding of 2^-9. The forms are bound by arithmetic, at two
// vector operations a cycle: 16 elements of gelu_tanh are 21 operations in f32 and 14 for bf16, not counting
// loading, rounding and storing. In a matmul's epilogue, AVX-512 has shorter forms for bf16,
// activation_avx512_inl.hpp.
//
//   cycles for 16 elements in L1 (AVX-512, 3.4 GHz)              gelu_tanh    silu        gelu_erf
//                                                                f32   bf16   f32   bf16  f32   bf16
//   exp as softmax has it, division, rounding to bf16 by hand    14.5  19.7   13.2  17.4  20.1  25.6
//   reciprocal by Newton, base 2, vcvtne2ps2bf16                 12.2  11.0   10.8   9.7  17.3  14.3
//   bf16 rounded by an addition (3.6 GHz)                        12.2   9.9   10.8   8.5  17.3  12.7
//
// The floor of the last line for bf16 is 8.8 and 7.8 cycles: 15 and 13 operations (the reciprocal is 3), 1 to unpack
// and 1.5 to round and pack. The current code also uses, for bf16, AVX-512's own split and scaling of a number in
// place of three operations and a multiplication.

#if defined(HEADROOM_KERNELS_ACTIVATION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_ACTIVATION_INL
#undef HEADROOM_KERNELS_ACTIVATION_INL
#else
#define HEADROOM_KERNELS_ACTIVATION_INL
#endif

#include <limits>

#include "ir/op_code.hpp"
#include "kernels/core/simd_inl.hpp"
#include "kernels/elementwise/activation_avx512_inl.hpp"
#include "kernels/matmul/activation_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {

/// 1 / (1 + 2^(a b)) for a b in [-126, 123]: no operand and no result is in the range of subnormals, where each would
/// cost some hundred cycles.
template <Precision kPrecision>
HWY_INLINE Vector inverse_of_one_plus_exp2(Vector a, Vector b) {
  const Float d;
  if constexpr (kPrecision == Precision::kBf16)
    return reciprocal_of<kPrecision>(hn::Add(exp2_for_bf16(hn::Mul(a, b)), hn::Set(d, 1.0F)));
  const Exp2<kPrecision> power(a, b);
  return reciprocal_of<kPrecision>(hn::MulAdd(power.fraction, power.scale, hn::Set(d, 1.0F)));
}

/// `y`, but NaN where x is -inf: x times its factor, which tends to 0, is NaN there, and a cut-off tail would hide
/// it.
HWY_INLINE Vector nan_at_minus_infinity(Vector x, Vector y) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return Vector{avx512::nan_at_minus_infinity(x.raw, y.raw)};
#else
  const Float d;
  const auto is_it = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::lowest()));
  return hn::IfThenElse(is_it, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
#endif
}

/// x / (1 + e^-(c x + d x^3)); below -tail as at -tail, where it is -1e-35 or so, but NaN for -inf.
template <Precision kPrecision>
HWY_INLINE Vector swish_of(Vector x, double tail, double c, double d) {
  constexpr double kLog2OfE = 1.4426950408889634;
  const auto set = [](double value) HWY_ATTR { return hn::Set(Float(), static_cast<float>(value)); };
  const Vector above = max_keeping_nan(set(-tail), x);
  const Vector near = hn::Min(above, set(tail));
  Vector factor = set(-c * kLog2OfE);
  if (d != 0) factor = hn::MulAdd(hn::Mul(near, near), set(-d * kLog2OfE), factor);
  return nan_at_minus_infinity(x, hn::Mul(above, inverse_of_one_plus_exp2<kPrecision>(near, factor)));
}

/// x Phi(x), Phi the normal distribution function. With t = |x| and u = 1 / (1 + 0.3 t),
/// Phi(-t) = e^(-t^2/2) Q(u): the form of Abramowitz and Stegun 7.1.26 with Q refitted, minimax for t in [0, 12.5]: of
/// degree 9, relative error 2.2e-8, or of degree 5 and 7.1e-5. x Phi(x) = max(x, 0) - t Phi(-t) never cancels. Below
/// -12.5 as at -12.5, where it is -1e-35, but NaN for -inf.
template <Precision kPrecision>
HWY_INLINE Vector normal_of(Vector x) {
  const Float d;
  const Vector one = hn::Set(d, 1.0F);
  const Vector t = hn::Min(hn::Abs(x), hn::Set(d, 12.5F));
  const Vector u = reciprocal_of<kPrecision>(hn::MulAdd(t, hn::Set(d, 0.3F), one));
  Vector q = hn::Zero(d);
  if constexpr (kPrecision == Precision::kBf16) {
    q = hn::Set(d, -0.0438042713F);
    q = hn::MulAdd(q, u, hn::Set(d, 0.330104099F));
    q = hn::MulAdd(q, u, hn::Set(d, -0.0897895523F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.197411285F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.105055772F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.00105811293F));
  } else {
    q = hn::Set(d, -0.00757742511F);
    q = hn::MulAdd(q, u, hn::Set(d, 0.0781886257F));
    q = hn::MulAdd(q, u, hn::Set(d, -0.259467625F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.344476019F));
    q = hn::MulAdd(q, u, hn::Set(d, -0.168862824F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.18992555F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.0790649519F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.12510403F));
    q = hn::MulAdd(q, u, hn::Set(d, 0.119123767F));
    q = hn::MulAdd(q, u, hn::Set(d, 2.49408978e-5F));
  }
  const Vector factor = hn::Mul(t, hn::Set(d, -0.721347520F));
  Vector power = hn::Zero(d);
  if constexpr (kPrecision == Precision::kBf16) {
    power = exp2_for_bf16(hn::Mul(t, factor));
  } else {
    const Exp2<kPrecision> exact(t, factor);
    power = hn::Mul(exact.fraction, exact.scale);
  }
  return nan_at_minus_infinity(x, hn::NegMulAdd(hn::Mul(t, q), power, max_keeping_nan(hn::Zero(d), x)));
}

/// Building blocks of the activation formulas; functions_inl.hpp has the rest.
template <Precision kPrecision>
struct Math {
  static HWY_INLINE Vector fma(Vector a, Vector b, Vector c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE Vector positive(Vector a) { return hn::IfThenZeroElse(hn::Lt(a, hn::Zero(Float())), a); }
  static HWY_INLINE Vector swish(Vector a, double tail, double c, double d) {
    return swish_of<kPrecision>(a, tail, c, d);
  }
  static HWY_INLINE Vector normal(Vector a) { return normal_of<kPrecision>(a); }
};

/// The op's formula in elementwise.def, in terms of M's functions.
template <Op kOp, Precision kPrecision, class M = Math<kPrecision>>
HWY_INLINE Vector formula(Vector a, [[maybe_unused]] Vector b = hn::Zero(Float()),
                          [[maybe_unused]] Vector c = hn::Zero(Float())) {
  [[maybe_unused]] constexpr M m{};
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if constexpr (kOp == Op::enumerator) return formula;
#include "ir/elementwise.def"
}

/// The activation in a matmul's epilogue.
template <Activation kActivation, Precision kPrecision>
HWY_INLINE Vector activation_of(Vector x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (kPrecision == Precision::kBf16) return Vector{avx512::activation_of_sum<kActivation>(x.raw)};
#endif
  if constexpr (kActivation != Activation::kNone) return formula<op_of(kActivation), kPrecision>(x);
  return x;
}

}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
