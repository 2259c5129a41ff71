// Code that the Highway kernels share: f32 vectors from and to f32 or bf16 memory, exp, sums and maxima of a row.
// Compiled once for each vector unit, so it has a toggling guard in place of #pragma once, and is included after
// foreach_target.h.

#if defined(HEADROOM_KERNELS_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_SIMD_INL
#undef HEADROOM_KERNELS_SIMD_INL
#else
#define HEADROOM_KERNELS_SIMD_INL
#endif

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/tensors/dtype.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Bf16 = hwy::bfloat16_t;
using Half = hwy::float16_t;
/// A bf16 in memory that is stored bit for bit as the scalar conversion does.
struct ExactBf16 {
  std::uint16_t bits;
};
using Float = hn::ScalableTag<float>;
using Vector = hn::Vec<Float>;

/// A place in memory that is written past the cache, because its lines would be gone before they are read: nothing is
/// read to fill them, which makes a copy a third faster. Whole vectors only, each at a multiple of its size.
template <class T>
struct PastCache {
  T* to;
  HWY_INLINE PastCache operator+(std::int64_t i) const { return {to + i}; }
};

/// The element type of a destination, T* or PastCache<T>.
template <class Y>
struct Destination;
template <class T>
struct Destination<T*> {
  using Element = T;
  static constexpr bool kPastCache = false;
  static T* at(void* y) { return static_cast<T*>(y); }
};
template <class T>
struct Destination<PastCache<T>> {
  using Element = T;
  static constexpr bool kPastCache = true;
  static PastCache<T> at(void* y) { return {static_cast<T*>(y)}; }
};

template <class T>
HWY_INLINE T* address_of(T* y) {
  return y;
}
template <class T>
HWY_INLINE T* address_of(PastCache<T> y) {
  return y.to;
}

/// AVX-512 with bf16 instructions computes results in f32 as AVX-512 without them does, and has no loops of its own for
/// them. There HR_TAKE_FLOAT_LOOPS(is_float, call) returns from its function with a call of the other unit's.
#undef HR_TAKE_FLOAT_LOOPS
#if HWY_TARGET == HWY_AVX3_DL && (HWY_TARGETS & HWY_AVX3)
#define HR_TAKE_FLOAT_LOOPS(is_float, call) \
  if (is_float) return N_AVX3::call
inline constexpr bool kHasFloatLoops = false;
#else
#define HR_TAKE_FLOAT_LOOPS(is_float, call) static_cast<void>(0)
inline constexpr bool kHasFloatLoops = true;
#endif

/// Calls f with the kind of place that results of that dtype, f32 or bf16, go to; f32 only if there are loops for it.
template <class F>
HWY_INLINE void with_destination(DType dtype, bool past_cache, const F& f) {
  constexpr bool kMayPassCache = HWY_TARGET != HWY_SCALAR;  // which has no such writes, and so no loops for them
  if constexpr (kHasFloatLoops) {
    if (dtype == DType::kF32) {
      if constexpr (kMayPassCache)
        if (past_cache) return f(PastCache<float>{});
      return f(static_cast<float*>(nullptr));
    }
  }
  if constexpr (kMayPassCache)
    if (past_cache) return f(PastCache<Bf16>{});
  f(static_cast<Bf16*>(nullptr));
}

/// After the last write of a thread, so that the others see its writes past the cache.
template <class Y>
HWY_INLINE void finish_writes() {
  if constexpr (Destination<Y>::kPastCache) hwy::FlushStream();
}

/// Distance of the prefetch where results are stored past the cache (non-temporal stores): the CPU's own prefetch
/// stops at the end of a page and starts late.
inline constexpr std::int64_t kAheadBytes = 4096;

template <class T>
HWY_INLINE void prefetch_ahead(const T* from) {
  hwy::Prefetch(from + kAheadBytes / static_cast<std::int64_t>(sizeof(T)));
}

/// An operand that has one element for a whole row, read as if it stood everywhere in it.
struct Repeated {
  Vector element;
  HWY_INLINE Repeated operator+(std::int64_t) const { return *this; }
};
HWY_INLINE void prefetch_ahead(Repeated) {}

/// Elements in a vector.
HWY_INLINE constexpr std::int64_t lanes() { return static_cast<std::int64_t>(hn::MaxLanes(Float())); }

// Memory. The forms with a count touch that many elements only; the other lanes are 0. The count is lanes() in all but
// the last vector of a row, where a detour over the stack is cheap enough and works on every target.

HWY_INLINE Vector load_all(const float* from) { return hn::LoadU(Float(), from); }
HWY_INLINE Vector load_all(const Bf16* from) {
  const hn::Rebind<std::uint16_t, Float> d16;
  const hn::RebindToUnsigned<Float> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
  return hn::BitCast(Float(), hn::ShiftLeft<16>(bits));
}
/// Expands f16 in the lower halves of 32 bits. Exponent and mantissa, shifted to their places in f32, are the
/// magnitude times 2^-112, subnormals included; infinity and NaN then need f32's largest exponent. (Highway's own
/// conversion gets those two wrong without F16C.)
HWY_INLINE Vector f16_of_codes(hn::Vec<hn::RebindToUnsigned<Float>> bits) {
  const Float d;
  const hn::RebindToUnsigned<Float> d32;
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d32, 0x8000)));
  const auto moved = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d32, 0x7FFF)));
  const Vector magnitude = hn::Mul(hn::BitCast(d, moved), hn::Set(d, 0x1p112F));
  const Vector special = hn::BitCast(d, hn::Or(moved, hn::Set(d32, 0x7F800000)));
  return hn::Or(hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, 65536.0F)), special, magnitude), hn::BitCast(d, sign));
}
HWY_INLINE Vector load_all(const Half* from) {
  const hn::Rebind<std::uint16_t, Float> d16;
  const hn::RebindToUnsigned<Float> d32;
  return f16_of_codes(hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from))));
}

HWY_INLINE Vector load_all(Repeated operand) { return operand.element; }
HWY_INLINE Vector load(Repeated operand, std::int64_t) { return operand.element; }
/// The first `count` elements, then 0. A call, as store_some() is: every loop has one for the end of a row, and inlined
/// they take a fourth of the time to compile it.
template <class T>
HWY_NOINLINE Vector load_some(const T* from, std::int64_t count) {
  HWY_ALIGN T padded[lanes()] = {};
  std::memcpy(padded, from, static_cast<std::size_t>(count) * sizeof(T));
  return load_all(padded);
}
template <class T>
HWY_INLINE Vector load(const T* from, std::int64_t count) {
  if (lanes() == 1 || HWY_LIKELY(count == lanes())) return load_all(from);
  return load_some(from, count);
}

/// The upper 16 bits of each result are v rounded to the nearest bf16, ties to even; a NaN stays one. The lower are 0
/// or junk.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<Float>> round_to_bf16_bits(Vector v) {
  const hn::RebindToUnsigned<Float> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF)));
  return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), hn::Or(bits, hn::Set(d32, 0x400000)), rounded);
}

HWY_INLINE void store_all(Vector v, float* to) { hn::StoreU(v, Float(), to); }
/// Keeps subnormal numbers.
HWY_INLINE void store_all(Vector v, ExactBf16* to) {
  const hn::Rebind<std::uint16_t, Float> d16;
  const auto halves = hn::TruncateTo(d16, hn::ShiftRight<16>(round_to_bf16_bits(v)));
  hn::StoreU(halves, d16, reinterpret_cast<std::uint16_t*>(to));
}
/// If the CPU has instructions for it (one operation in place of eight), subnormal numbers become 0: values below
/// 1e-38 next to 1e-36 at the very least, so no sum sees it.
HWY_INLINE void store_all(Vector v, Bf16* to) {
#if HWY_TARGET == HWY_AVX3_DL
  __m256i halves;  // as assembly: Highway's target has no name for these instructions
  asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
#else
  store_all(v, reinterpret_cast<ExactBf16*>(to));
#endif
}

HWY_INLINE void store_all(Vector v, PastCache<float> y) { hn::Stream(v, Float(), y.to); }
template <class T>  // a 16-bit one: rounded in a register first
HWY_INLINE void store_all(Vector v, PastCache<T> y) {
  const hn::Rebind<std::uint16_t, Float> d16;
  HWY_ALIGN std::uint16_t halves[lanes()];
  store_all(v, reinterpret_cast<T*>(halves));
  hn::Stream(hn::Load(d16, halves), d16, reinterpret_cast<std::uint16_t*>(y.to));
}

/// Two vectors, one after the other, as bf16.
template <class Y>
HWY_INLINE void store_two(Vector first, Vector second, Y y) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  using T = typename Destination<Y>::Element;
  __m512i halves;
#if HWY_TARGET == HWY_AVX3_DL
  constexpr bool kExact = std::is_same_v<T, ExactBf16>;
#else
  constexpr bool kExact = true;
#endif
  if constexpr (kExact) {
    const __m512i interleaved = _mm512_packus_epi32(_mm512_srli_epi32(round_to_bf16_bits(first).raw, 16),
                                                    _mm512_srli_epi32(round_to_bf16_bits(second).raw, 16));
    halves = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), interleaved);
  } else {
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(first.raw), "v"(second.raw));
  }
  if constexpr (Destination<Y>::kPastCache) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(address_of(y)), halves);
  } else {
    _mm512_storeu_si512(y, halves);
  }
#else
  store_all(first, y);
  store_all(second, y + lanes());
#endif
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
/// Four vectors of integers from -128 to 127 as bytes, one after the other.
HWY_INLINE __m512i bytes_of_integers(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i interleaved = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, interleaved);
}
#endif

template <class T>
HWY_NOINLINE void store_some(Vector v, T* to, std::int64_t count) {
  HWY_ALIGN T padded[lanes()];
  store_all(v, padded);
  std::memcpy(to, padded, static_cast<std::size_t>(count) * sizeof(T));
}
template <class T>
HWY_INLINE void store(Vector v, T* to, std::int64_t count) {
  if (lanes() == 1 || HWY_LIKELY(count == lanes())) return store_all(v, to);
  store_some(v, to, count);
}

/// A last, shorter vector goes through the cache.
template <class T>
HWY_INLINE void store(Vector v, PastCache<T> y, std::int64_t count) {
  store(v, y.to, count);
}

// Rows as interleaved pairs: lane i of `even` is element 2i and of `odd` element 2i + 1.

struct Pairs {
  Vector even;
  Vector odd;
};

HWY_INLINE Pairs load_all_pairs(const float* from) {
  Pairs pairs;
  hn::LoadInterleaved2(Float(), from, pairs.even, pairs.odd);
  return pairs;
}
HWY_INLINE Pairs load_all_pairs(const Bf16* from) {
  // Little endian: the even element of a pair is the lower half of its 32 bits.
  const hn::RebindToUnsigned<Float> d32;
  const auto both = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(from));
  return {hn::BitCast(Float(), hn::ShiftLeft<16>(both)),
          hn::BitCast(Float(), hn::And(both, hn::Set(d32, 0xFFFF0000U)))};
}
HWY_INLINE Pairs load_all_pairs(Repeated operand) { return {operand.element, operand.element}; }
/// How a result halfway between two bf16 is rounded. Away from zero takes a fraction of the instructions. It is for
/// results that are halfway only by chance, as of exp or of a division. Its NaN must be one that a bf16 can hold,
/// which all arithmetic on bf16 gives.
enum class Ties { kToEven, kAway };

template <Ties kTies = Ties::kToEven>
HWY_INLINE void store_all_pairs(Pairs pairs, float* to) {
  hn::StoreInterleaved2(pairs.even, pairs.odd, Float(), to);
}
/// On AVX-512's vector units, which start two operations a cycle, the bf16 instruction takes 4 operations and
/// ordering the halves 2; rounding by an addition takes 3 in all.
template <Ties kTies = Ties::kToEven>
HWY_INLINE void store_all_pairs(Pairs pairs, Bf16* to) {
  const hn::RebindToUnsigned<Float> d32;
  if constexpr (kTies == Ties::kAway) {
    const auto even = hn::Add(hn::BitCast(d32, pairs.even), hn::Set(d32, 0x8000));
    const auto odd = hn::Add(hn::BitCast(d32, pairs.odd), hn::Set(d32, 0x8000));
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    const __m512i upper_half_down = _mm512_set4_epi32(0x0F0E0F0E, 0x0B0A0B0A, 0x07060706, 0x03020302);
    constexpr __mmask64 kLowerHalves = 0x3333333333333333;
    _mm512_storeu_si512(to, _mm512_mask_shuffle_epi8(odd.raw, kLowerHalves, even.raw, upper_half_down));
#else
    const auto both = hn::Or(hn::ShiftRight<16>(even), hn::And(odd, hn::Set(d32, 0xFFFF0000U)));
    hn::StoreU(both, d32, reinterpret_cast<std::uint32_t*>(to));
#endif
    return;
  }
#if HWY_TARGET == HWY_AVX3_DL
  alignas(64) static constexpr std::uint16_t kInterleave[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                                21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                                11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i halves;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(pairs.even.raw), "v"(pairs.odd.raw));
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), halves));
#else
  const auto lower = hn::ShiftRight<16>(round_to_bf16_bits(pairs.even));
  const auto upper = hn::And(round_to_bf16_bits(pairs.odd), hn::Set(d32, 0xFFFF0000U));
  hn::StoreU(hn::Or(lower, upper), d32, reinterpret_cast<std::uint32_t*>(to));
#endif
}

template <Ties kTies = Ties::kToEven, class T>
HWY_INLINE void store_all_pairs(Pairs pairs, PastCache<T> y) {
  // Through the stack in the program, in registers as compiled.
  using Lane = std::conditional_t<sizeof(T) == sizeof(float), float, std::uint16_t>;
  const hn::ScalableTag<Lane> d;
  HWY_ALIGN T both[2 * lanes()];
  store_all_pairs<kTies>(pairs, both);
  for (std::int64_t i = 0; i < 2 * lanes(); i += static_cast<std::int64_t>(hn::MaxLanes(d)))
    hn::Stream(hn::Load(d, reinterpret_cast<const Lane*>(both + i)), d, reinterpret_cast<Lane*>(y.to + i));
}

/// `count` pairs; the other lanes are 0.
template <class T>
HWY_INLINE Pairs load_pairs(const T* from, std::int64_t count) {
  if (lanes() == 1 || HWY_LIKELY(count == lanes())) return load_all_pairs(from);
  HWY_ALIGN T padded[2 * lanes()] = {};
  std::memcpy(padded, from, 2 * static_cast<std::size_t>(count) * sizeof(T));
  return load_all_pairs(padded);
}
template <class T>
HWY_INLINE void store_pairs(Pairs pairs, T* to, std::int64_t count) {
  if (lanes() == 1 || HWY_LIKELY(count == lanes())) return store_all_pairs(pairs, to);
  HWY_ALIGN T padded[2 * lanes()];
  store_all_pairs(pairs, padded);
  std::memcpy(to, padded, 2 * static_cast<std::size_t>(count) * sizeof(T));
}

template <class T>
HWY_INLINE void store_pairs(Pairs pairs, PastCache<T> y, std::int64_t count) {
  if (lanes() == 1 || HWY_LIKELY(count == lanes())) return store_all_pairs(pairs, y);
  store_pairs(pairs, y.to, count);
}

// Rows. If all operands are bf16 they are taken in pairs: one load and two operations give two vectors. Their order
// does not matter to elementwise work and sums, and no lane has to move.

template <class... T>
inline constexpr bool kAllBf16 = (std::is_same_v<T, Bf16> && ...);
template <class X>  // a const T* or Repeated
inline constexpr bool kTakenInPairs = std::is_same_v<X, const Bf16*> || std::is_same_v<X, Repeated>;

/// y[i] = f(x[i]...) for i < n; y is T* or PastCache<T> and may be one of the x, each a const T* or Repeated. kTies is
/// for whole vectors of bf16.
template <Ties kTies = Ties::kToEven, class F, class Y, class... X>
HWY_INLINE void map_row(std::int64_t n, const F& f, Y y, X... x) {
  constexpr bool kPastCache = Destination<Y>::kPastCache;
  std::int64_t i = 0;
  if constexpr (kAllBf16<typename Destination<Y>::Element> && (kTakenInPairs<X> && ...)) {
    const auto map_pairs = [&](const auto&... pairs) HWY_ATTR {
      store_all_pairs<kTies>({f(pairs.even...), f(pairs.odd...)}, y + i);
    };
    for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
      if constexpr (kPastCache) (prefetch_ahead(x + i), ...);
      map_pairs(load_all_pairs(x + i)...);
    }
  } else if constexpr (sizeof(typename Destination<Y>::Element) == sizeof(std::uint16_t)) {
    for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
      if constexpr (kPastCache) ((prefetch_ahead(x + i), prefetch_ahead(x + i + lanes())), ...);
      const Vector first = f(load_all(x + i)...);
      store_two(first, f(load_all(x + i + lanes())...), y + i);
    }
  }
  for (; i + lanes() <= n; i += lanes()) {
    if constexpr (kPastCache) (prefetch_ahead(x + i), ...);
    store_all(f(load_all(x + i)...), y + i);
  }
  if (i < n) store(f(load(x + i, n - i)...), y + i, n - i);
}

/// v in the first `count` lanes, 0 in the others.
HWY_INLINE Vector keep_first(Vector v, std::int64_t count) {
  if (lanes() == 1 || HWY_LIKELY(count == lanes())) return v;
  return hn::IfThenElseZero(hn::FirstN(Float(), static_cast<std::size_t>(count)), v);
}

/// The sum of f(x[i]) for i < n. Runs of 64 vectors are added in f32 and those sums in double, so that the error does
/// not grow with n.
template <class F, class X>
HWY_INLINE double sum_row(std::int64_t n, const F& f, const X* x) {
  const Float d;
  double total = 0;
  std::int64_t i = 0;
  while (i < n) {
    const std::int64_t end = HWY_MIN(n, i + 64 * lanes());
    Vector sum0 = hn::Zero(d);
    Vector sum1 = hn::Zero(d);
    Vector sum2 = hn::Zero(d);
    Vector sum3 = hn::Zero(d);
    for (; i + 4 * lanes() <= end; i += 4 * lanes()) {
      if constexpr (kAllBf16<X>) {
        const Pairs first = load_all_pairs(x + i);
        const Pairs second = load_all_pairs(x + i + 2 * lanes());
        sum0 = hn::Add(sum0, f(first.even));
        sum1 = hn::Add(sum1, f(first.odd));
        sum2 = hn::Add(sum2, f(second.even));
        sum3 = hn::Add(sum3, f(second.odd));
      } else {
        sum0 = hn::Add(sum0, f(load_all(x + i)));
        sum1 = hn::Add(sum1, f(load_all(x + i + lanes())));
        sum2 = hn::Add(sum2, f(load_all(x + i + 2 * lanes())));
        sum3 = hn::Add(sum3, f(load_all(x + i + 3 * lanes())));
      }
    }
    for (; i + lanes() <= end; i += lanes()) sum0 = hn::Add(sum0, f(load_all(x + i)));
    if (i < end) sum1 = hn::Add(sum1, keep_first(f(load(x + i, end - i)), end - i));
    i = end;
    const Vector sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

/// The largest of x[0..n), ignoring NaN if there is a number.
template <class T>
HWY_INLINE float max_row(std::int64_t n, const T* x) {
  const Float d;
  const Vector lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  Vector max0 = lowest;
  Vector max1 = lowest;
  std::int64_t i = 0;
  for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
    if constexpr (kAllBf16<T>) {
      const Pairs pairs = load_all_pairs(x + i);
      max0 = hn::Max(pairs.even, max0);
      max1 = hn::Max(pairs.odd, max1);
    } else {
      max0 = hn::Max(load_all(x + i), max0);
      max1 = hn::Max(load_all(x + i + lanes()), max1);
    }
  }
  if (i + lanes() <= n) {
    max0 = hn::Max(load_all(x + i), max0);
    i += lanes();
  }
  if (i < n) {
    const auto valid = hn::FirstN(d, static_cast<std::size_t>(n - i));
    max1 = hn::Max(hn::IfThenElse(valid, load(x + i, n - i), lowest), max1);
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(max0, max1)));
}

/// The precision that a result needs: the dtype that it is rounded to next.
enum class Precision { kF32, kBf16 };

template <class T>
constexpr Precision precision_of() {
  return std::is_same_v<T, Bf16> ? Precision::kBf16 : Precision::kF32;
}

/// The larger of the two; NaN where x is NaN.
HWY_INLINE Vector max_keeping_nan(Vector bound, Vector x) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  return hn::Max(bound, x);  // x86 takes the second operand where either is NaN
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}

/// 1 / x for a normal x with a normal result: within an ulp or two, or 2^-13 for bf16. AVX-512 starts from 14 bits;
/// its division takes 16 cycles.
template <Precision kPrecision>
HWY_INLINE Vector reciprocal_of(Vector x) {
  const Float d;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const Vector guess = hn::ApproximateReciprocal(x);
  if constexpr (kPrecision == Precision::kBf16) return guess;
  return hn::Mul(guess, hn::NegMulAdd(x, guess, hn::Set(d, 2.0F)));
#else
  return hn::Div(hn::Set(d, 1.0F), x);
#endif
}

/// 2^(a b) as fraction * scale, for a b in [-126, 127]. Adding 1.5 2^23 + 127 rounds a b to an integer q and leaves
/// q + 127, the exponent of 2^q, in the lowest bits; the rest is in [-1/2, 1/2], exact but for one rounding where the
/// target has fused multiply-add. Minimax polynomials of 2^rest: of degree 6, relative error 3e-9, and 3, 7.5e-5.
template <Precision kPrecision>
struct Exp2 {
  Vector fraction;  ///< in [0.7, 1.42]
  Vector exponent;  ///< a whole number
  Vector scale;     ///< 2^exponent

  HWY_INLINE Exp2(Vector a, Vector b) {
    const Float d;
    const hn::RebindToUnsigned<Float> d32;
    const Vector shift = hn::Set(d, 12583039.0F);
    const Vector shifted = hn::MulAdd(a, b, shift);
    exponent = hn::Sub(shifted, shift);
    const Vector rest = hn::MulSub(a, b, exponent);
    if constexpr (kPrecision == Precision::kBf16) {
      fraction = hn::Set(d, 0.0551716694F);
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.242611122F));
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.693260985F));
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.999928074F));
    } else {
      fraction = hn::Set(d, 1.55946766e-4F);
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.00134066439F));
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.00961769298F));
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.0555031055F));
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.240226528F));
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 0.693147215F));
      fraction = hn::MulAdd(fraction, rest, hn::Set(d, 1.0F));
    }
    scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(d32, shifted)));
  }
};

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
/// 2^t / 2^floor(t) within 7.5e-5. AVX-512 has instructions that take t apart and scale by a power of two: 5 operations
/// in place of 8.
HWY_INLINE Vector exp2_of_fraction(Vector t) {
  const Float d;
  const Vector rest{_mm512_reduce_ps(t.raw, _MM_FROUND_TO_NEG_INF)};  // in [0, 1)
  Vector power = hn::Set(d, 0.0780245231F);
  power = hn::MulAdd(power, rest, hn::Set(d, 0.226067154F));
  power = hn::MulAdd(power, rest, hn::Set(d, 0.69583354F));
  return hn::MulAdd(power, rest, hn::Set(d, 0.999925219F));
}
#endif

/// 2^t within 7.5e-5, for results that are rounded to bf16 and t in [-126, 127]: less would be subnormal and take some
/// hundred cycles.
HWY_INLINE Vector exp2_for_bf16(Vector t) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return Vector{_mm512_scalef_ps(exp2_of_fraction(t).raw, t.raw)};
#else
  const Exp2<Precision::kBf16> power(t, hn::Set(Float(), 1.0F));
  return hn::Mul(power.fraction, power.scale);
#endif
}

/// The same, but 0 for t below -100; NaN for NaN.
HWY_INLINE Vector exp2_or_zero_for_bf16(Vector t) {
  const Vector lowest = hn::Set(Float(), -100.0F);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const __mmask16 normal = _mm512_cmp_ps_mask(t.raw, lowest.raw, _CMP_NLT_UQ);
  return Vector{_mm512_maskz_scalef_ps(normal, exp2_of_fraction(t).raw, t.raw)};
#else
  return hn::IfThenZeroElse(hn::Lt(t, lowest), exp2_for_bf16(max_keeping_nan(lowest, t)));
#endif
}

// Groups: two vectors of a row of T, its pairs for bf16 and its next two vectors for f32. Its other operands are
// taken in the same order, whatever their dtype. Intermediate results are kept as planes: first the one vector,
// then the other.

inline constexpr std::int64_t kGroup = 2 * lanes();

template <class T, class S>
HWY_INLINE Pairs load_group(const S* from, std::int64_t count) {
  if constexpr (!std::is_same_v<T, Bf16>)
    if (count == lanes()) return {load_all(from), hn::Zero(Float())};  // rows of an odd number of vectors are common
  HWY_ALIGN S padded[kGroup];
  if (HWY_UNLIKELY(count < kGroup)) {
    std::memset(padded, 0, sizeof(padded));
    std::memcpy(padded, from, static_cast<std::size_t>(HWY_MIN(count, kGroup)) * sizeof(S));
    from = padded;
  }
  if constexpr (std::is_same_v<T, Bf16>) return load_all_pairs(from);
  return {load_all(from), load_all(from + lanes())};
}
template <Ties kTies, class T>
HWY_INLINE void store_whole_group(Pairs group, T* to) {
  if constexpr (std::is_same_v<T, Bf16>) return store_all_pairs<kTies>(group, to);
  store_all(group.even, to);
  store_all(group.odd, to + lanes());
}
template <Ties kTies, class T>
HWY_INLINE void store_whole_group(Pairs group, PastCache<T> y) {
  if constexpr (std::is_same_v<T, Bf16>) return store_all_pairs<kTies>(group, y);
  store_all(group.even, y);
  store_all(group.odd, y + lanes());
}
template <Ties kTies = Ties::kToEven, class Y>
HWY_INLINE void store_group(Pairs group, Y y, std::int64_t count) {
  using T = typename Destination<Y>::Element;
  if (HWY_LIKELY(count == kGroup)) return store_whole_group<kTies>(group, y);
  if constexpr (!std::is_same_v<T, Bf16>)
    if (count == lanes()) return store_all(group.even, y);
  HWY_ALIGN T padded[kGroup];
  store_whole_group<kTies>(group, static_cast<T*>(padded));
  std::memcpy(address_of(y), padded, static_cast<std::size_t>(HWY_MIN(count, kGroup)) * sizeof(T));
}
/// The first `count` elements of a group of T, 0 in place of the others.
template <class T>
HWY_INLINE Pairs keep_first_of_group(Pairs group, std::int64_t count) {
  if (HWY_LIKELY(count == kGroup)) return group;
  const Float d;
  const std::int64_t even = std::is_same_v<T, Bf16> ? (count + 1) / 2 : HWY_MIN(count, lanes());
  return {hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(even)), group.even),
          hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(count - even)), group.odd)};
}
HWY_INLINE Pairs load_planes(const float* from) { return {load_all(from), load_all(from + lanes())}; }
HWY_INLINE void store_planes(Pairs group, float* to) {
  store_all(group.even, to);
  store_all(group.odd, to + lanes());
}
template <class T>
HWY_INLINE void prefetch_group(const T* from) {
  constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = 0; i < kGroup; i += kLine) hwy::Prefetch(from + i);
}
/// The group kAheadBytes after one that is read.
template <class T>
HWY_INLINE void prefetch_group_ahead(const T* from) {
  prefetch_group(from + kAheadBytes / static_cast<std::int64_t>(sizeof(T)));
}

/// Prefetches the next row of T group by group while the current row is passed over kPasses times, a part in each
/// pass, so that memory always has work. Does nothing if Y is not stored past the cache.
template <class Y, class T, int kPasses>
class ReadAhead {
 public:
  HWY_INLINE ReadAhead(const T* next, std::int64_t n, int pass)
      : at_(reinterpret_cast<const char*>(next + n * pass / kPasses)) {}
  HWY_INLINE void ask() {
    if constexpr (Destination<Y>::kPastCache) {
      constexpr std::int64_t kBytes = (kGroup * static_cast<std::int64_t>(sizeof(T)) + kPasses - 1) / kPasses;
      for (std::int64_t i = 0; i < kBytes; i += 64) hwy::Prefetch(at_ + i);
      at_ += kBytes;
    }
  }

 private:
  const char* at_;
};

/// The sum of f(i, count), the group of `count` elements at i, over a row of n. Runs of 64 vectors are added in f32 and
/// those sums in double, so that the error does not grow with n.
template <class F>
HWY_INLINE double sum_groups(std::int64_t n, const F& f) {
  const Float d;
  double total = 0;
  std::int64_t i = 0;
  while (i < n) {
    const std::int64_t end = HWY_MIN(n, i + 32 * kGroup);
    Pairs sum0{hn::Zero(d), hn::Zero(d)};
    Pairs sum1 = sum0;
    for (; i + 2 * kGroup <= end; i += 2 * kGroup) {
      const Pairs first = f(i, kGroup);
      const Pairs second = f(i + kGroup, kGroup);
      sum0 = {hn::Add(sum0.even, first.even), hn::Add(sum0.odd, first.odd)};
      sum1 = {hn::Add(sum1.even, second.even), hn::Add(sum1.odd, second.odd)};
    }
    for (; i < end; i += kGroup) {
      const Pairs last = f(i, HWY_MIN(kGroup, end - i));
      sum0 = {hn::Add(sum0.even, last.even), hn::Add(sum0.odd, last.odd)};
    }
    const Vector sum = hn::Add(hn::Add(sum0.even, sum0.odd), hn::Add(sum1.even, sum1.odd));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

/// The range of the arguments of exp_of.
enum class ExpRange { kAny, kNotPositive };

/// e^x within about 1 ulp; 0 below -87, infinity above 88, NaN for NaN. x = q ln 2 + r with |r| <= ln(2)/2 (ln 2 in
/// two parts, Cody and Waite 1980). e^r = 1 + r + r^2 P(r) with P minimax of degree 4 (relative error 3e-9), scaled
/// by 2^q. Adding 1.5 2^23 + 127 rounds to an integer and leaves q + 127, the exponent of 2^q, in the lowest bits.
template <ExpRange kRange = ExpRange::kAny>
HWY_INLINE Vector exp_of(Vector x) {
  const Float d;
  const hn::RebindToUnsigned<Float> d32;
  const Vector shift = hn::Set(d, 12583039.0F);
  const Vector shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
  const Vector q = hn::Sub(shifted, shift);
  Vector r = hn::NegMulAdd(q, hn::Set(d, 0.693145751953125F), x);
  r = hn::NegMulAdd(q, hn::Set(d, 1.42860677e-6F), r);
  const Vector one = hn::Set(d, 1.0F);
  Vector y = hn::Set(d, 0.00138145978F);
  y = hn::MulAdd(y, r, hn::Set(d, 0.00836871695F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.0416683881F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.166665206F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.499999934F));
  y = hn::MulAdd(hn::MulAdd(y, r, one), r, one);
  y = hn::Mul(y, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(d32, shifted))));
  y = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0F)), y);
  if constexpr (kRange == ExpRange::kNotPositive) return y;
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.0F)), hn::Set(d, std::numeric_limits<float>::infinity()), y);
}

}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
