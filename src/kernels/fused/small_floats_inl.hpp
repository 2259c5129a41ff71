// Conversion of f32 vectors to and from other storage dtypes: f16, f8e4m3, i8, u8 and bool, rounded as
// base/tensors/dtype.cpp does. Guarded as simd_inl.hpp is.

#if defined(HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL
#undef HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL
#else
#define HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL
#endif

#include <array>
#include <cstdint>
#include <limits>

#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<Float>;
using Word = hn::Vec<Words>;

/// The magnitude code of v in a float with kMantissa mantissa bits, whose smallest normal number is 2^kLeast,
/// rounded to nearest, ties to even. The bits of f32, minus the difference of the exponent biases, are that code
/// with more bits to round off. Below the normal numbers, an addition rounds to their unit.
template <int kMantissa, int kLeast>
HWY_INLINE Word magnitude_code(Vector magnitude) {
  const Words d32;
  constexpr int kDropped = 23 - kMantissa;
  constexpr std::uint32_t kLeastBits = static_cast<std::uint32_t>(127 + kLeast) << 23U;
  constexpr std::uint32_t kUnitBits = static_cast<std::uint32_t>(127 + 23 + kLeast - kMantissa) << 23U;
  const Word bits = hn::BitCast(d32, magnitude);
  const Word odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(d32, 1));
  constexpr std::uint32_t kOffset = (1U << (kDropped - 1)) - 1 - (kLeastBits - (1U << 23U));
  const Word normal = hn::ShiftRight<kDropped>(hn::Add(bits, hn::Add(odd, hn::Set(d32, kOffset))));
  const Vector unit = hn::BitCast(Float(), hn::Set(d32, kUnitBits));
  const Word subnormal = hn::Sub(hn::BitCast(d32, hn::Add(magnitude, unit)), hn::Set(d32, kUnitBits));
  const auto is_small = hn::Lt(magnitude, hn::BitCast(Float(), hn::Set(d32, kLeastBits)));
  return hn::IfThenElse(hn::RebindMask(d32, is_small), subnormal, normal);
}

template <int kBits>
HWY_INLINE Word sign_code(Vector v) {
  const Words d32;
  return hn::ShiftRight<32 - kBits>(hn::And(hn::BitCast(d32, v), hn::Set(d32, 0x80000000U)));
}

/// The storage of a dtype in memory, and its codes in the lowest bits of 32. For dtypes of one byte, encoded words
/// may have junk in the other three bytes; in AVX-512 a `bounded` word is that byte as a signed number.
template <DType kDType>
struct Stored;

/// Stores the lowest bytes of four vectors in succession; non-temporal stores need an address that is a multiple of
/// their size. With `kAreIntegers`, AVX-512's words are those bytes as signed numbers, which packing preserves.
template <bool kAreIntegers>
HWY_INLINE void store_bytes(Word a, Word b, Word c, Word d, std::uint8_t* to, bool past_cache) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  __m512i bytes;
  if constexpr (kAreIntegers) {
    bytes = bytes_of_integers(a.raw, b.raw, c.raw, d.raw);
  } else {
#if HWY_TARGET == HWY_AVX3_DL
    const __m512i first_bytes = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x7C787470, 0x6C686460, 0x5C585450, 0x4C484440,
                                                 0x3C383430, 0x2C282420, 0x1C181410, 0x0C080400);
    const __m512i front = _mm512_permutex2var_epi8(a.raw, first_bytes, b.raw);
    const __m512i back = _mm512_permutex2var_epi8(c.raw, first_bytes, d.raw);
    bytes = _mm512_inserti64x4(front, _mm512_castsi512_si256(back), 1);
#else
    const __m512i low = _mm512_set1_epi32(0xFF);
    const __m512i front = _mm512_packus_epi32(_mm512_and_si512(a.raw, low), _mm512_and_si512(b.raw, low));
    const __m512i back = _mm512_packus_epi32(_mm512_and_si512(c.raw, low), _mm512_and_si512(d.raw, low));
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(front, back));
#endif
  }
  if (past_cache)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), bytes);
  else
    _mm512_storeu_si512(to, bytes);
#elif HWY_TARGET == HWY_AVX2
  const __m256i low = _mm256_set1_epi32(0xFF);
  const __m256i front = _mm256_packus_epi32(_mm256_and_si256(a.raw, low), _mm256_and_si256(b.raw, low));
  const __m256i back = _mm256_packus_epi32(_mm256_and_si256(c.raw, low), _mm256_and_si256(d.raw, low));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(front, back), order);
  if (past_cache)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bytes);
  else
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
#else
  static_cast<void>(past_cache);
  const hn::Rebind<std::uint8_t, Float> d8;
  const Word words[] = {a, b, c, d};
  for (const Word& word : words) {
    hn::StoreU(hn::TruncateTo(d8, word), d8, to);
    to += lanes();
  }
#endif
}

template <class T>
struct StoredAs {
  using Element = T;
  using Elements = hn::Rebind<T, Float>;
  static HWY_INLINE Word load(const T* from) { return hn::PromoteTo(Words(), hn::LoadU(Elements(), from)); }
  static HWY_INLINE void store(Word codes, T* to) { hn::StoreU(narrowed(codes), Elements(), to); }
  static HWY_INLINE void stream(Word codes, T* to) { hn::Stream(narrowed(codes), Elements(), to); }

 private:
  static HWY_INLINE hn::Vec<Elements> narrowed(Word codes) {
#if HWY_TARGET == HWY_AVX3_DL  // where Highway 1.0 permutes words in place of bytes
    if constexpr (sizeof(T) == 1) return hn::Vec<Elements>{_mm512_cvtepi32_epi8(codes.raw)};
#endif
    return hn::TruncateTo(Elements(), codes);
  }
};

template <>
struct Stored<DType::kBF16> : StoredAs<std::uint16_t> {
  static HWY_INLINE Vector decoded(Word codes) { return hn::BitCast(Float(), hn::ShiftLeft<16>(codes)); }
  static HWY_INLINE Word encoded(Vector v) { return hn::ShiftRight<16>(round_to_bf16_bits(v)); }
};

template <>
struct Stored<DType::kF16> : StoredAs<std::uint16_t> {
  static HWY_INLINE Vector decoded(Word codes) { return f16_of_codes(codes); }
  static HWY_INLINE Word encoded(Vector v) {
    const Words d32;
    const Word rounded = hn::Min(magnitude_code<10, -14>(hn::Abs(v)), hn::Set(d32, 0x7C00));
    return hn::Or(sign_code<16>(v), hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), hn::Set(d32, 0x7FFF), rounded));
  }
};

/// No infinity: values that are too large become the largest number.
template <>
struct Stored<DType::kF8E4M3> : StoredAs<std::uint8_t> {
  static HWY_INLINE Vector decoded(Word codes) {
    const Words d32;
    const Word magnitude = hn::And(codes, hn::Set(d32, 0x7F));
    constexpr std::uint32_t kRebias = (127U - 7U) << 23U;
    const Vector normal = hn::BitCast(Float(), hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(d32, kRebias)));
    const hn::RebindToSigned<Float> i32;
    const Vector subnormal = hn::Mul(hn::ConvertTo(Float(), hn::BitCast(i32, magnitude)), hn::Set(Float(), 0x1p-9F));
    const auto is_small = hn::RebindMask(Float(), hn::Lt(hn::BitCast(i32, magnitude), hn::Set(i32, 8)));
    const auto is_nan = hn::RebindMask(Float(), hn::Eq(magnitude, hn::Set(d32, 0x7F)));
    const Vector number = hn::IfThenElse(is_small, subnormal, normal);
    const Vector value = hn::IfThenElse(is_nan, hn::Set(Float(), std::numeric_limits<float>::quiet_NaN()), number);
    return hn::Or(value, hn::BitCast(Float(), hn::ShiftLeft<24>(hn::And(codes, hn::Set(d32, 0x80)))));
  }
  static HWY_INLINE Word encoded(Vector v) {
    const Words d32;
    const Vector largest = hn::Set(Float(), 448.0F);
    const Word number = bounded(hn::Min(hn::Max(v, hn::Neg(largest)), largest));
    const Word nan = hn::Or(sign_code<8>(v), hn::Set(d32, 0x7F));
    return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), nan, hn::And(number, hn::Set(d32, 0xFF)));
  }
  /// The code of a number up to 448, in the lowest byte. The addend is a power of two whose last bit equals the unit
  /// of v's code, from the exponent of v or that of subnormal numbers if larger. The sum is rounded as the code is,
  /// and its last bits are the code's except for the exponent. (56 is the remainder of the exponents' difference in
  /// a byte, and even.)
  static HWY_INLINE Word bounded(Vector v) {
    const Vector least = hn::Set(Float(), 0x1p-6F);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    // The addend's power of two, with the exponent's part of the code, for the lowest bits of each exponent.
    alignas(64) static constexpr std::array<std::uint32_t, 16> kAdded = [] {
      std::array<std::uint32_t, 16> added{};
      for (std::uint32_t exponent = 127 - 6; exponent <= 127 + 8; ++exponent)
        added[exponent % 16] = ((exponent + 20) << 23U) | (8 * (exponent - (127 - 6)));
      return added;
    }();
    constexpr int kFirstOrBoth = 0xF8, kFirstOrSecond = 0xE4;  // a | (b & c); a where c is set, else b
    const __m512i bits = _mm512_castps_si512(v.raw);
    const __m512i exponent = _mm512_srli_epi32(_mm512_castps_si512(_mm512_range_ps(v.raw, least.raw, 0b1011)), 23);
    const __m512i magnitude = _mm512_permutexvar_epi32(exponent, _mm512_load_si512(kAdded.data()));
    const __m512i added = _mm512_ternarylogic_epi32(magnitude, bits, _mm512_set1_epi32(INT32_MIN), kFirstOrBoth);
    const __m512 sum = _mm512_add_ps(v.raw, _mm512_castsi512_ps(added));
    return Word{_mm512_ternarylogic_epi32(_mm512_castps_si512(sum), _mm512_srai_epi32(bits, 31),
                                          _mm512_set1_epi32(0x7F), kFirstOrSecond)};
#else
    const Words d32;
    const Vector magnitude = hn::Abs(v);
    const Word exponent = hn::And(hn::BitCast(d32, hn::Max(magnitude, least)), hn::Set(d32, 0x7F800000U));
    const Word shift = hn::Set(d32, (20U << 23U) | 56U);
    const Vector sum = hn::Add(magnitude, hn::BitCast(Float(), hn::Add(exponent, shift)));
    const Word code = hn::Add(hn::BitCast(d32, sum), hn::ShiftRight<20>(exponent));
    return hn::Or(code, hn::And(hn::ShiftRight<24>(hn::BitCast(d32, v)), hn::Set(d32, 0x80)));
#endif
  }
};

/// The lowest byte of a number within [-2^22, 2^22], rounded to nearest, in two's complement; the other bytes are
/// junk.
HWY_INLINE Word lowest_byte(Vector v) { return hn::BitCast(Words(), hn::Add(v, hn::Set(Float(), 0x1.8p23F))); }
/// The larger of v and 0; 0 for NaN.
HWY_INLINE Vector positive_number(Vector v) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  return hn::Max(v, hn::Zero(Float()));  // x86 takes the second operand where either is NaN
#else
  return hn::IfThenElseZero(hn::Gt(v, hn::Zero(Float())), v);
#endif
}
HWY_INLINE Vector integer_value(Word integers) {
  const hn::RebindToSigned<Float> i32;
  return hn::ConvertTo(Float(), hn::BitCast(i32, integers));
}

template <>
struct Stored<DType::kI8> : StoredAs<std::uint8_t> {
  static HWY_INLINE Vector decoded(Word codes) {
    const hn::RebindToSigned<Float> i32;
    return integer_value(hn::BitCast(Words(), hn::ShiftRight<24>(hn::BitCast(i32, hn::ShiftLeft<24>(codes)))));
  }
  static HWY_INLINE Word encoded(Vector v) {
    const auto set = [](float value) HWY_ATTR { return hn::Set(Float(), value); };
    const Vector number = hn::IfThenZeroElse(hn::IsNaN(v), v);
    return bounded(hn::Min(hn::Max(number, set(-128)), set(127)));
  }
  static HWY_INLINE Word bounded(Vector v) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return hn::BitCast(Words(), hn::NearestInt(v));
#else
    return lowest_byte(v);
#endif
  }
};

template <>
struct Stored<DType::kU8> : StoredAs<std::uint8_t> {
  static HWY_INLINE Vector decoded(Word codes) { return integer_value(codes); }
  static HWY_INLINE Word encoded(Vector v) {
    return lowest_byte(hn::Min(positive_number(v), hn::Set(Float(), 255.0F)));
  }
};

template <>
struct Stored<DType::kBool> : StoredAs<std::uint8_t> {
  static HWY_INLINE Vector decoded(Word codes) { return integer_value(hn::Min(codes, hn::Set(Words(), 1))); }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
