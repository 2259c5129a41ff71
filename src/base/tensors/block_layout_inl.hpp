#pragma once

#include <cstdint>
#include <cstring>

// The layouts of ggml's block formats as inline functions, which host and GPU share: scales, and integers of eight
// elements at a time, one in each byte of a word. Plain C++17 without library calls, because device code includes it.
// A float product or sum is rounded once, as `gguf` (PyPI) computes it: a host must not contract them into an FMA.

#ifndef HR_HOST_DEVICE
#ifdef __CUDACC__
#define HR_HOST_DEVICE __host__ __device__
#else
#define HR_HOST_DEVICE
#endif
#endif

namespace headroom::block_layout {

// An element of group g is scale(g) * (integer - kZero), and minus minimum(g) in formats with kHasMinimum.
//
// Blocks of 32 elements have one scale d, and some a minimum m. Blocks of 256 ("K") have groups of 16 or 32 with
// integer scales of their own. Every number is little-endian; fields are at even addresses if the block is.

using Word = std::uint64_t;  // eight bytes; the first element is in the lowest

inline constexpr Word kOnes = 0x0101010101010101U;

HR_HOST_DEVICE inline float product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

HR_HOST_DEVICE inline float difference(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}

/// Unaligned fields, of blocks at even addresses on a GPU.
HR_HOST_DEVICE inline unsigned load_u16(const std::uint8_t* at) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const std::uint16_t*>(at);
#else
  return at[0] | static_cast<unsigned>(at[1]) << 8;
#endif
}

HR_HOST_DEVICE inline std::uint32_t load_u32(const std::uint8_t* at) { return load_u16(at) | load_u16(at + 2) << 16; }

HR_HOST_DEVICE inline Word load_word(const std::uint8_t* at) {
#ifdef __CUDA_ARCH__
  return load_u32(at) | static_cast<Word>(load_u32(at + 4)) << 32;
#else
  Word word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
#endif
}

/// An element of F16, exactly; a NaN remains a NaN.
HR_HOST_DEVICE inline float float_of_f16(unsigned bits) {
  float value = 0;
#ifdef __CUDA_ARCH__
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<std::uint16_t>(bits)));
#else
  const std::uint32_t sign = (bits & 0x8000U) << 16, exponent = bits & 0x7C00U, mantissa = bits & 0x03FFU;
  constexpr std::uint32_t kRebias = (127U - 15U) << 23, kAllOnes = 0x7F800000U;
  std::uint32_t magnitude = (exponent | mantissa) << 13;
  if (exponent == 0) {  // zero and subnormal numbers
    const float exact = static_cast<float>(mantissa) * 0x1p-24F;
    std::memcpy(&magnitude, &exact, sizeof magnitude);
  } else {
    magnitude = exponent == 0x7C00U ? kAllOnes | magnitude : magnitude + kRebias;
  }
  magnitude |= sign;
  std::memcpy(&value, &magnitude, sizeof value);
#endif
  return value;
}

HR_HOST_DEVICE inline float load_f16(const std::uint8_t* at) { return float_of_f16(load_u16(at)); }

/// The low four bits of each byte, or the high ones.
HR_HOST_DEVICE inline Word nibbles(Word bytes, int which) { return (bytes >> (4 * which)) & (15 * kOnes); }

/// Bit i of `bits` as byte i, 0 or 1.
HR_HOST_DEVICE inline Word spread_bits(unsigned bits) {
  const Word places = 0x8040201008040201U;  // bit i of byte i
  return ((bits * kOnes & places) + 0x7F * kOnes) >> 7 & kOnes;
}

/// Blocks of 32: byte i of `quants` has element i in its low bits and element i + 16 in its high ones.
HR_HOST_DEVICE inline Word halves(const std::uint8_t* quants, int first) {
  return nibbles(load_word(quants + first % 16), first / 16);
}

/// The values of IQ4_NL and IQ4_XS, which are denser near 0, plus 128.
HR_HOST_DEVICE inline Word uneven(Word indices) {
#ifdef __CUDA_ARCH__
  // -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113
  const auto four = [](std::uint32_t bytes) {
    std::uint32_t places = bytes & 0x07070707U;
    places = (places | places >> 4) & 0x00FF00FFU;
    places |= places >> 8;
    const std::uint32_t low = __byte_perm(0x3F2D1801U, 0x766A5D4FU, places);
    const std::uint32_t high = __byte_perm(0xA6998D81U, 0xF1D9C5B5U, places);
    const std::uint32_t is_high = (bytes >> 3 & 0x01010101U) * 0xFFU;
    return (low & ~is_high) | (high & is_high);
  };
  return four(static_cast<std::uint32_t>(indices)) | static_cast<Word>(four(static_cast<std::uint32_t>(indices >> 32)))
                                                         << 32;
#else
  constexpr std::uint8_t kValues[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
  Word values = 0;
  for (int i = 0; i < 8; ++i) values |= static_cast<Word>(kValues[indices >> (8 * i) & 15U]) << (8 * i);
  return values;
#endif
}

inline constexpr int kNone = -1;

/// The places of d, and of m or the scale of minimums, are those of two bytes in a block.
template <int kElementCount, int kByteCount, int kGroupSize, int kZeroInteger, int kPlaceOfScale,
          int kPlaceOfMinimum = kNone>
struct Layout {
  static constexpr int kElements = kElementCount;
  static constexpr int kBytes = kByteCount;
  static constexpr int kGroup = kGroupSize;  ///< elements that share a scale
  static constexpr int kZero = kZeroInteger;
  static constexpr bool kHasMinimum = kPlaceOfMinimum != kNone;
  static constexpr int kScaleAt = kPlaceOfScale;
  static constexpr int kMinimumAt = kPlaceOfMinimum;
};

struct Q4_0 : Layout<32, 18, 32, 8, 0> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int /*group*/) { return load_f16(b + kScaleAt); }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) { return halves(b + 2, first); }
};

struct Q4_1 : Layout<32, 20, 32, 0, 0, 2> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int /*group*/) { return load_f16(b + kScaleAt); }
  HR_HOST_DEVICE static float minimum(const std::uint8_t* b, int /*group*/) { return -load_f16(b + kMinimumAt); }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) { return halves(b + 4, first); }
};

struct Q5_0 : Layout<32, 22, 32, 16, 0> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int /*group*/) { return load_f16(b + kScaleAt); }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    return halves(b + 6, first) | spread_bits(load_u32(b + 2) >> first & 0xFFU) << 4;
  }
};

struct Q5_1 : Layout<32, 24, 32, 0, 0, 2> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int /*group*/) { return load_f16(b + kScaleAt); }
  HR_HOST_DEVICE static float minimum(const std::uint8_t* b, int /*group*/) { return -load_f16(b + kMinimumAt); }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    return halves(b + 8, first) | spread_bits(load_u32(b + 4) >> first & 0xFFU) << 4;
  }
};

struct Q8_0 : Layout<32, 34, 32, 128, 0> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int /*group*/) { return load_f16(b + kScaleAt); }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    return load_word(b + 2 + first) ^ (0x80 * kOnes);  // signed, plus 128
  }
};

/// Two bits of each byte of blocks of 256: 32 bytes have 128 elements, in the order of their bits.
HR_HOST_DEVICE inline Word pairs_of_bits(const std::uint8_t* quants, int first) {
  return load_word(quants + first / 128 * 32 + first % 32) >> (first % 128 / 32 * 2) & (3 * kOnes);
}

struct Q2_K : Layout<256, 84, 16, 0, 80, 82> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int group) {
    return product(load_f16(b + kScaleAt), static_cast<float>(b[group] & 15));
  }
  HR_HOST_DEVICE static float minimum(const std::uint8_t* b, int group) {
    return product(load_f16(b + kMinimumAt), static_cast<float>(b[group] >> 4));
  }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) { return pairs_of_bits(b + 16, first); }
};

struct Q3_K : Layout<256, 110, 16, 4, 108> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int group) {
    const int low = b[96 + group % 8] >> (group / 8 * 4) & 15;
    const int high = b[104 + group % 4] >> (group / 4 * 2) & 3;
    return product(load_f16(b + kScaleAt), static_cast<float>((low | high << 4) - 32));
  }
  /// The third bits come first.
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    return pairs_of_bits(b + 32, first) | (load_word(b + first % 32) >> (first / 32) & kOnes) << 2;
  }
};

/// Scales and minimums of groups of 32 in Q4_K and Q5_K: six bits each of 12 bytes.
HR_HOST_DEVICE inline int six_bit_scale(const std::uint8_t* scales, int group) {
  return group < 4 ? scales[group] & 63 : (scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4;
}
HR_HOST_DEVICE inline int six_bit_minimum(const std::uint8_t* scales, int group) {
  return group < 4 ? scales[group + 4] & 63 : scales[group + 4] >> 4 | (scales[group] >> 6) << 4;
}

struct Q4_K : Layout<256, 144, 32, 0, 0, 2> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int group) {
    return product(load_f16(b + kScaleAt), static_cast<float>(six_bit_scale(b + 4, group)));
  }
  HR_HOST_DEVICE static float minimum(const std::uint8_t* b, int group) {
    return product(load_f16(b + kMinimumAt), static_cast<float>(six_bit_minimum(b + 4, group)));
  }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    return nibbles(load_word(b + 16 + first / 64 * 32 + first % 32), first / 32 % 2);
  }
};

struct Q5_K : Layout<256, 176, 32, 0, 0, 2> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int group) { return Q4_K::scale(b, group); }
  HR_HOST_DEVICE static float minimum(const std::uint8_t* b, int group) { return Q4_K::minimum(b, group); }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    return nibbles(load_word(b + 48 + first / 64 * 32 + first % 32), first / 32 % 2) |
           (load_word(b + 16 + first % 32) >> (first / 32) & kOnes) << 4;
  }
};

struct Q6_K : Layout<256, 210, 16, 32, 208> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int group) {
    return product(load_f16(b + kScaleAt), static_cast<float>(static_cast<std::int8_t>(b[192 + group])));
  }
  /// Halves of 128 elements: their low four bits in 64 bytes, the high two in 32.
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    const int half = first / 128, place = first % 128;
    return nibbles(load_word(b + 64 * half + place % 64), place / 64) |
           (load_word(b + 128 + 32 * half + place % 32) >> (place / 32 * 2) & (3 * kOnes)) << 4;
  }
};

struct IQ4_NL : Layout<32, 18, 32, 128, 0> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int /*group*/) { return load_f16(b + kScaleAt); }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) { return uneven(halves(b + 2, first)); }
};

struct IQ4_XS : Layout<256, 136, 32, 128, 0> {
  HR_HOST_DEVICE static float scale(const std::uint8_t* b, int group) {
    const int low = b[4 + group / 2] >> (group % 2 * 4) & 15;
    const int high = static_cast<int>(load_u16(b + 2) >> (2 * group) & 3U);
    return product(load_f16(b + kScaleAt), static_cast<float>((low | high << 4) - 32));
  }
  HR_HOST_DEVICE static Word integers(const std::uint8_t* b, int first) {
    return uneven(halves(b + 8 + first / 32 * 16, first % 32));
  }
};

/// Calls run(Layout()) with the layout of a format by its number in GGUF files; false if it is none of these.
template <class Run>
bool with_layout(std::uint32_t number, const Run& run) {
  const auto runs = [&](auto layout) {
    run(layout);
    return true;
  };
  switch (number) {
    case 2:
      return runs(Q4_0());
    case 3:
      return runs(Q4_1());
    case 6:
      return runs(Q5_0());
    case 7:
      return runs(Q5_1());
    case 8:
      return runs(Q8_0());
    case 10:
      return runs(Q2_K());
    case 11:
      return runs(Q3_K());
    case 12:
      return runs(Q4_K());
    case 13:
      return runs(Q5_K());
    case 14:
      return runs(Q6_K());
    case 20:
      return runs(IQ4_NL());
    case 23:
      return runs(IQ4_XS());
    default:
      return false;
  }
}

}  // namespace headroom::block_layout
