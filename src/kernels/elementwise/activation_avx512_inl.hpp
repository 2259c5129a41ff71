#pragma once

// Activations of the epilogue of a matmul with bf16 results, as functions of an AVX-512 vector, for Highway kernels
// and kernels in intrinsics.
//
// Each is max(x, 0) - t q(t) with t = |x|, where q falls from 1/2 to 0 and serves either sign of x. q is piecewise:
// t in steps of 1/8 or 1/2 selects the coefficients of a line or a parabola, minimax in each step, from 32 that are
// in two registers. The result is off by at most 2^-12 |x| before it is rounded, silu by 2^-13 |x|. This error is
// not relative to the result: far in the negative tail the result loses its digits, but there errors of the sum
// change it by more. activation_inl.hpp has the forms for exact arguments.
//
// Operations of the vector unit, which starts two a cycle: 8 for gelu_tanh and gelu, 10 for silu, not counting bias
// and rounding.
//
//   cycles for 16 sums in L1 with a bias (Emerald Rapids, 3.0 GHz)    gelu_tanh    gelu    silu
//   the forms for exact arguments                                          11.3    14.2     9.8
//   by pieces                                                               5.4     5.4     6.7

#if defined(__x86_64__)
#include "hwy/base.h"
#include "kernels/matmul/activation_rows.hpp"

HWY_DIAGNOSTICS(push)
#if HWY_COMPILER_GCC_ACTUAL  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
HWY_DIAGNOSTICS_OFF(disable : 4700, ignored "-Wuninitialized")
HWY_DIAGNOSTICS_OFF(disable : 4701, ignored "-Wmaybe-uninitialized")
#endif
#include <immintrin.h>
HWY_DIAGNOSTICS(pop)

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,fma")
namespace headroom::avx512 {

// The coefficients of q in 32 steps about 0, step, 2 step..., the constant ones first. In the middle of the last step q
// is 0, and so it is from there on.

/// 1 / (1 + e^(2u)), u = sqrt(2/pi) (t + 0.044715 t^3), in steps of 1/8.
alignas(64) inline constexpr float kGeluTanh[2][32] = {
    {0.49999686F,   0.49975658F,   0.49798671F,   0.49330603F,  0.48460037F,   0.47112013F,   0.45253406F,
     0.42893755F,   0.40081723F,   0.36897968F,   0.33445588F,  0.29839497F,   0.2619606F,    0.22624059F,
     0.19217739F,   0.16052254F,   0.13181517F,   0.10638162F,  0.084351715F,  0.065686646F,  0.050213488F,
     0.037661958F,  0.027699999F,  0.019965688F,  0.014093879F, 0.0097367941F, 0.0065784647F, 0.0043433932F,
     0.0028002338F, 0.0017614822F, 0.0010802762F, 0.0027198792F},
    {-0.39868142F,    -0.39556786F,    -0.38637414F,    -0.3715296F,   -0.35171241F,   -0.32779766F,   -0.30079247F,
     -0.27176488F,    -0.24177363F,    -0.21180534F,    -0.18272429F,  -0.15523804F,   -0.12987969F,   -0.10700584F,
     -0.086807627F,   -0.069331221F,   -0.054504105F,   -0.04216366F,  -0.032085216F,  -0.024007538F,  -0.017654492F,
     -0.012752315F,   -0.0090424288F,  -0.0062900927F,  -0.004289427F, -0.0028654323F, -0.0018736783F, -0.0011983101F,
     -0.00074896335F, -0.00045710032F, -0.00027218306F, -0.0007019043F}};

/// The normal distribution function of -t, in steps of 1/8.
alignas(64) inline constexpr float kGelu[2][32] = {
    {0.49999688F,   0.49975775F,   0.4979959F,    0.49333389F,  0.48465599F,  0.47120489F,   0.45263647F,
     0.42903102F,   0.40086206F,   0.36892952F,   0.33426748F,  0.29803911F,  0.26143123F,   0.22555978F,
     0.19139452F,   0.15970771F,   0.13104836F,   0.10573987F,  0.083897316F, 0.06545848F,   0.050223039F,
     0.0378942F,    0.028118392F,  0.020519777F,  0.014727741F, 0.010396763F, 0.0072189779F, 0.0049304385F,
     0.0033124089F, 0.0021891053F, 0.0014232094F, 0.0042572021F},
    {-0.3986827F,     -0.39558415F,    -0.38643224F,    -0.37164715F,   -0.35189349F,   -0.32803081F,   -0.30105166F,
     -0.27201345F,    -0.24197066F,    -0.21191321F,    -0.18271588F,   -0.15510205F,   -0.12962291F,   -0.10665198F,
     -0.086393104F,   -0.068898882F,   -0.054096383F,   -0.041816457F,  -0.031823592F,  -0.023843724F,  -0.017588222F,
     -0.012772994F,   -0.0091324315F,  -0.0064284025F,  -0.0044549479F, -0.0030395207F, -0.0020416933F, -0.0013502022F,
     -0.00087908324F, -0.00056348726F, -0.00035559946F, -0.0010986328F}};

/// 1 / (1 + e^t), in steps of 1/2.
alignas(64) inline constexpr float kSilu[3][32] = {{0.50001F,       0.50178208F,    0.51031185F,    0.51235377F,
                                                    0.48944567F,    0.43793354F,    0.36828448F,    0.29430314F,
                                                    0.22604831F,    0.16845519F,    0.12266305F,    0.08772349F,
                                                    0.061843042F,   0.043091844F,   0.029735631F,   0.020350381F,
                                                    0.013828283F,   0.0093378423F,  0.0062706749F,  0.0041900874F,
                                                    0.0027872949F,  0.0018465959F,  0.0012188294F,  0.00080173134F,
                                                    0.00052570991F, 0.00034371433F, 0.00022411694F, 0.00014576692F,
                                                    9.458535e-05F,  6.1240054e-05F, 3.9568896e-05F, 0},
                                                   {-0.25072268F,    -0.2626946F,     -0.28639506F,    -0.29063505F,
                                                    -0.26494675F,    -0.21924037F,    -0.16847245F,    -0.1227863F,
                                                    -0.08624508F,    -0.059040322F,   -0.03969015F,    -0.026334917F,
                                                    -0.017304633F,   -0.011286583F,   -0.0073182937F,  -0.0047225808F,
                                                    -0.0030353785F,  -0.0019442995F,  -0.0012417184F,  -0.00079094066F,
                                                    -0.00050262851F, -0.00031873732F, -0.0002017369F,  -0.00012746065F,
                                                    -8.0402072e-05F, -5.0642241e-05F, -3.1853778e-05F, -2.0010309e-05F,
                                                    -1.2555368e-05F, -7.8690443e-06F, -4.9267694e-06F, 0},
                                                   {0.0077468511F,  0.028440366F,   0.045029583F,   0.047123229F,
                                                    0.039912902F,   0.029764029F,   0.020506443F,   0.013449831F,
                                                    0.0085573544F,  0.0053438432F,  0.0032992122F,  0.0020227615F,
                                                    0.0012349245F,  0.0007520016F,  0.00045721305F, 0.00027771967F,
                                                    0.00016859503F, 0.00010231311F, 6.2076303e-05F, 3.7658638e-05F,
                                                    2.2843862e-05F, 1.3856512e-05F, 8.404771e-06F,  5.0978879e-06F,
                                                    3.0920756e-06F, 1.8754571e-06F, 1.1375291e-06F, 6.8994875e-07F,
                                                    4.1847599e-07F, 2.5381886e-07F, 1.5394904e-07F, 0}};

/// Selects one of 32 numbers by the lowest five bits of each lane.
[[gnu::always_inline]] inline __m512 pick(const float* from, __m512i bits) {
  return _mm512_permutex2var_ps(_mm512_load_ps(from), bits, _mm512_load_ps(from + 16));
}

/// `y`, but NaN where x is -inf.
[[gnu::always_inline]] inline __m512 nan_at_minus_infinity(__m512 x, __m512 y) {
  constexpr int kMinusInfinity = 4, kToNan = 3;  // a class of x, and its replacement; 0 leaves y
  return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(kToNan << (4 * kMinusInfinity)), 0);
}

/// max(x, 0) - |x| q(|x|); NaN for NaN and for -inf. The steps are a power of two.
template <int kCount>
[[gnu::always_inline]] inline __m512 by_pieces(const float (&coefficients)[kCount][32], float step, __m512 x) {
  const __m512 above = _mm512_max_ps(_mm512_setzero_ps(), x);              // which is x where that is NaN
  const __m512 t = _mm512_range_ps(x, _mm512_set1_ps(31 * step), 0b1010);  // min(|x|, 31 step)
  // Adding so large a number rounds t to a step, whose number is then in the lowest bits.
  const __m512i piece = _mm512_castps_si512(_mm512_add_ps(t, _mm512_set1_ps(0x1.8p23F * step)));
  __m512 q = pick(coefficients[kCount - 1], piece);
  for (int i = kCount - 2; i >= 0; --i) q = _mm512_fmadd_ps(q, t, pick(coefficients[i], piece));
  return nan_at_minus_infinity(x, _mm512_fnmadd_ps(t, q, above));
}

template <Activation kActivation>
[[gnu::always_inline]] inline __m512 activation_of_sum(__m512 x) {
  if constexpr (kActivation == Activation::kGeluTanh) return by_pieces(kGeluTanh, 0.125F, x);
  if constexpr (kActivation == Activation::kGeluErf) return by_pieces(kGelu, 0.125F, x);
  if constexpr (kActivation == Activation::kSilu) return by_pieces(kSilu, 0.5F, x);
  if constexpr (kActivation == Activation::kRelu) return _mm512_max_ps(_mm512_setzero_ps(), x);  // x where that is NaN
  return x;
}

}  // namespace headroom::avx512
HWY_POP_ATTRIBUTES

#endif
