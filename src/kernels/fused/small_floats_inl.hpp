// Vectors of f32 to and from what else is stored: f16, f8e4m3, i8, u8 and bool, rounded as base/dtype.cpp does. Guarded as
// simd_inl.hpp is.

#if defined(HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL
#undef HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL
#else
#define HEADROOM_KERNELS_FUSED_SMALL_FLOATS_INL
#endif

#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<Float>;
using Word = hn::Vec<Words>;

/// The code of v in a float with kMantissa bits of mantissa, whose smallest normal number is 2^kLeast: its magnitude, rounded to
/// the nearest, ties to even. f32's bits, less what the exponents differ by, are that code with more bits to round off;
/// below the normal numbers an addition rounds to their unit.
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

/// How a dtype lies in memory, and what its codes, in the lowest bits of 32, are.
template <DType kDType>
struct Stored;

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

/// No infinity: what is too large becomes the largest number.
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
    const Word rounded = magnitude_code<3, -6>(hn::Min(hn::Abs(v), hn::Set(Float(), 448.0F)));
    return hn::Or(sign_code<8>(v), hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), hn::Set(d32, 0x7F), rounded));
  }
};

template <int kLeast, int kLargest>
HWY_INLINE Word saturated_integer(Vector v) {
  const Vector number = hn::IfThenZeroElse(hn::IsNaN(v), v);
  const auto set = [](int value) HWY_ATTR { return hn::Set(Float(), static_cast<float>(value)); };
  return hn::BitCast(Words(), hn::NearestInt(hn::Min(hn::Max(number, set(kLeast)), set(kLargest))));
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
  static HWY_INLINE Word encoded(Vector v) { return saturated_integer<-128, 127>(v); }
};

template <>
struct Stored<DType::kU8> : StoredAs<std::uint8_t> {
  static HWY_INLINE Vector decoded(Word codes) { return integer_value(codes); }
  static HWY_INLINE Word encoded(Vector v) { return saturated_integer<0, 255>(v); }
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
