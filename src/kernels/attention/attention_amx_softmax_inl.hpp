#pragma once

// The vector half of attention_amx.cpp: exponentials of a row of scores, as bf16, and their sums. For x86 with AVX-512
// BW, BF16 and VBMI, which every CPU with AMX has.

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/base.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi,fma")
namespace headroom::amx {

using Bits = std::uint16_t;  // of a bf16

/// The same bits. (std::bit_cast is compiled without these attributes, and then returns no vector.)
template <class To, class From>
inline To bits_as(From from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// 2^x as bf16 by a table. A score s becomes v = 256 (x + 127 - kLead), x = scale s - shift, an integer of 16 bits: an
// exponent and 8 bits of fraction f, already a number 1 + f in place of 2^f. The table adds the difference, by the top
// 6 bits of f, and a shift drops the ninth bit of the mantissa. kLead makes all differences positive. Packing to 16
// bits saturates: too small values become 0, too large ones NaN (v itself must be below 2^31). Two vectors of
// scores take 13 operations with their sum, where a cubic with vcvtne2ps2bf16 takes 23. Errors: 0.0019 in the mean
// square, 0.0068 at most, where rounding alone gives 0.0016 and 0.0039.

inline constexpr double kLead = 22.0 / 256;

/// The value of v for x = 0.
inline constexpr float kOffset = static_cast<float>(256 * (127 - kLead));

inline std::array<std::uint8_t, 64> exponential_table() {
  std::array<std::uint8_t, 64> table{};
  for (int i = 0; i < 64; ++i) {
    double difference = 0;  // of the four fractions that share an entry
    for (int f = 4 * i; f < 4 * i + 4; ++f) {
      const double power = std::exp2(f / 256.0 + kLead);
      difference += 256 * (power < 2 ? power - 1 : power / 2) - f;
    }
    table[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(std::lround(difference / 4 + 0.5));  // then cut off
  }
  return table;
}

/// The order in which 32 exponentials of a row lie: packing two vectors interleaves their quarters.
[[nodiscard]] constexpr int key_at(int position) {
  return position / 8 * 4 + position % 4 + (position % 8 < 4 ? 0 : 16);
}

/// The positions of the first `keys` of 32.
[[nodiscard]] constexpr std::uint32_t positions_of_first(std::int64_t keys) {
  std::uint32_t positions = 0;
  for (int i = 0; i < 32; ++i)
    if (key_at(i) < keys) positions |= std::uint32_t{1} << i;
  return positions;
}

/// The least and the largest of 16 columns of sums, by their bits, in whose order NaN is above all numbers.
struct SumRange {
  __m512i least, most;

  SumRange() : least(_mm512_set1_epi32(-1)), most(_mm512_setzero_si512()) {}
  [[gnu::always_inline]] void add(__m512 sums) {
    least = _mm512_min_epu32(least, _mm512_castps_si512(sums));
    most = _mm512_max_epu32(most, _mm512_castps_si512(sums));
  }
  [[nodiscard]] bool within(float low, float high) const {
    return _mm512_cmplt_epu32_mask(least, _mm512_castps_si512(_mm512_set1_ps(low))) == 0 &&
           _mm512_cmpgt_epu32_mask(most, _mm512_castps_si512(_mm512_set1_ps(high))) == 0;
  }
};

/// Constants that all exponentials share.
struct Exponential {
  __m512 scale;   ///< 256 log2(e) |scale of the scores|
  __m512i table;  ///< exponential_table()
};

/// Writes the exponentials of 32 scores of a row under its offset (kOffset - 256 shift); returns `sum`, in 16 parts,
/// plus their sums. Those outside `valid` become 0.
[[gnu::always_inline]] inline __m512 exponentiate(const Exponential& exponential, __m512 first, __m512 second,
                                                  __m512 offset, __mmask32 valid, __m512 sum, Bits* to) {
  const auto one = bits_as<__m512bh>(_mm512_set1_epi16(0x3F80));
  const __mmask64 even_bytes = 0x5555555555555555U;
  const __m512 lower = _mm512_fmadd_ps(first, exponential.scale, offset);
  const __m512 upper = _mm512_fmadd_ps(second, exponential.scale, offset);
  const __m512i v = _mm512_packus_epi32(_mm512_cvtps_epi32(lower), _mm512_cvtps_epi32(upper));
  const __m512i difference = _mm512_maskz_permutexvar_epi8(even_bytes, _mm512_srli_epi16(v, 2), exponential.table);
  const __m512i power = _mm512_maskz_srli_epi16(valid, _mm512_adds_epu16(v, difference), 1);
  _mm512_store_si512(to, power);
  return _mm512_dpbf16_ps(sum, bits_as<__m512bh>(power), one);
}

/// Parameters that all rows of an item share.
struct RowOfScores {
  Exponential exponential;
  std::int64_t groups;     ///< of 32 keys
  std::int64_t last_keys;  ///< in the last group; the others are whole
  __mmask32 last;          ///< positions_of_first() of those
};

/// How the scores s of a row become v = scale (s - reference) + offset.
struct RowTerms {
  float reference = 0;  ///< other than 0 only where no offset would do
  float offset = kOffset;
};

/// The terms under which the largest score of a row becomes 1.
inline RowTerms terms_for(float scale, float largest) {
  const float offset = std::fma(-scale, largest, kOffset);
  if (std::fabs(offset) < 0x1p30F) return {.offset = offset};
  return {.reference = largest};
}

/// By how much v is larger under `to` than under `from`.
inline float rise(float scale, const RowTerms& from, const RowTerms& to) {
  return std::fma(scale, from.reference - to.reference, to.offset - from.offset);
}

/// Writes the exponentials of a row under its terms; returns `sum`, in 16 parts, plus their sums.
inline __m512 exponentiate_row(const RowOfScores& row, const float* scores, const RowTerms& terms, __m512 sum,
                               Bits* to) {
  const __m512 reference = _mm512_set1_ps(terms.reference), offset = _mm512_set1_ps(terms.offset);
  for (std::int64_t group = 0; group < row.groups; ++group, scores += 32) {
    const __mmask32 valid = group + 1 < row.groups ? 0xFFFFFFFFU : row.last;
    const __m512 first = _mm512_sub_ps(_mm512_load_ps(scores), reference);
    const __m512 second = _mm512_sub_ps(_mm512_load_ps(scores + 16), reference);
    sum = exponentiate(row.exponential, first, second, offset, valid, sum, to + group * 32);
  }
  return sum;
}

/// The largest score of a row, or NaN if it has one.
inline float largest_score(const RowOfScores& row, const float* scores) {
  const std::int64_t keys = (row.groups - 1) * 32 + row.last_keys;
  __m512 largest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __mmask16 nan = 0;
  for (std::int64_t i = 0; i < keys; i += 16) {
    const auto valid = static_cast<__mmask16>(keys - i >= 16 ? 0xFFFF : (1 << (keys - i)) - 1);
    const __m512 here = _mm512_mask_load_ps(largest, valid, scores + i);
    nan |= _mm512_mask_cmp_ps_mask(valid, here, here, _CMP_UNORD_Q);
    largest = _mm512_max_ps(largest, here);
  }
  return nan != 0 ? std::numeric_limits<float>::quiet_NaN() : _mm512_reduce_max_ps(largest);
}

/// The sums of 16 rows of 16 elements, one after the other.
inline __m512 sum_each_row(const float* rows) {
  __m512 a[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_load_ps(rows + 16 * i);
  for (int i = 0; i < 8; ++i)  // each quarter: two rows, twice
    a[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
  for (int i = 0; i < 4; ++i) {  // each quarter: four rows
    const __m512d even = _mm512_castps_pd(a[2 * i]), odd = _mm512_castps_pd(a[2 * i + 1]);
    a[i] =
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(even, odd)), _mm512_castpd_ps(_mm512_unpackhi_pd(even, odd)));
  }
  for (int i = 0; i < 2; ++i)  // quarters 0 and 1 of the one and of the other
    a[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0xDD));
  return _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x88), _mm512_shuffle_f32x4(a[0], a[1], 0xDD));
}

}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

#endif
