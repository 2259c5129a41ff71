#pragma once

// Keys, values and queries in the form that tiles want, for attention_amx.cpp.

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#include "hwy/base.h"
#include "kernels/attention/attention_amx_softmax_inl.hpp"
#include "kernels/attention/attention_amx_tiles.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi,fma")
namespace headroom::amx {

/// A mask of the first `columns` of 32.
inline __mmask32 first_of_32(std::int64_t columns) {
  return static_cast<__mmask32>(columns >= 32 ? 0xFFFFFFFFU : (1U << columns) - 1);
}

/// 16 rows of up to 32 bf16, rows at `stride`; elements outside the given rows and columns are 0.
inline void load_rows(const Bits* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, __m512i* to) {
  const __mmask32 mask = first_of_32(columns);
  for (std::int64_t i = 0; i < 16; ++i)
    to[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, from + i * stride) : _mm512_setzero_si512();
}

/// The maximum of `largest` and the magnitudes of 16 rows, as bits of bf16: in their order NaN is above all numbers.
inline __m512i larger_of(__m512i largest, const __m512i* rows) {
  for (int i = 0; i < 16; ++i)
    largest = _mm512_max_epu16(largest, _mm512_and_si512(rows[i], _mm512_set1_epi16(0x7FFF)));
  return largest;
}

/// The largest of 32.
inline Bits largest_of(__m512i bits) {
  const __m512i halves = _mm512_max_epu16(bits, _mm512_srli_epi32(bits, 16));
  return static_cast<Bits>(_mm512_reduce_max_epu32(_mm512_and_si512(halves, _mm512_set1_epi32(0xFFFF))));
}

/// Swaps rows and columns of 16 x 16 elements of 32 bits.
inline void transpose(__m512i* x) {
  __m512i a[16], b[16];
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  for (int k = 0; k < 4; ++k) {  // blocks of 128 bits
    const __m512i even0 = _mm512_shuffle_i32x4(b[k], b[4 + k], 0x88);
    const __m512i odd0 = _mm512_shuffle_i32x4(b[k], b[4 + k], 0xDD);
    const __m512i even1 = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0x88);
    const __m512i odd1 = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0xDD);
    x[k] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    x[4 + k] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    x[8 + k] = _mm512_shuffle_i32x4(even0, even1, 0xDD);
    x[12 + k] = _mm512_shuffle_i32x4(odd0, odd1, 0xDD);
  }
}

/// The keys of one group as [key_steps][2] tiles, and the largest of them in magnitude.
inline void pack_keys(const AmxTiles& tiles, std::int64_t head, std::int64_t group, const Bits* k, std::byte* packed) {
  const AttentionProblem& problem = tiles.problem;
  const std::int64_t first = group * kGroupKeys;
  const std::int64_t count = std::min(kGroupKeys, problem.keys - first);
  __m512i rows[16];
  __m512i largest = _mm512_setzero_si512();
  const Bits* key = k + problem.head_offset(problem.k, head) + first * problem.k.token;
  Bits* tile = reinterpret_cast<Bits*>(packed + tiles.keys) + group * 2 * tiles.key_steps * kTile;
  for (std::int64_t step = 0; step < tiles.key_steps; ++step) {
    for (std::int64_t n = 0; n < 2; ++n, tile += kTile) {
      load_rows(key + n * 16 * problem.k.token + step * 32, problem.k.token, count - n * 16,
                problem.key_dim - step * 32, rows);
      largest = larger_of(largest, rows);
      transpose(rows);
      for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * 32, rows[i]);
    }
  }
  reinterpret_cast<Bits*>(packed + tiles.largest_keys)[group] = largest_of(largest);
}

/// The values of one group, two tiles in each of [value_pairs][groups]. Their rows are in the order of exponentials
/// (key_at), their columns in the order of store_row().
inline void pack_values(const AmxTiles& tiles, std::int64_t head, std::int64_t group, const Bits* v,
                        std::byte* packed) {
  const AttentionProblem& problem = tiles.problem;
  const std::int64_t first = group * kGroupKeys;
  const std::int64_t count = std::min(kGroupKeys, problem.keys - first);
  const std::int64_t stride = problem.v.token;
  const Bits* value = v + problem.head_offset(problem.v, head) + first * stride;
  for (std::int64_t pair = 0; pair < tiles.value_pairs; ++pair, value += 32) {
    Bits* tile = reinterpret_cast<Bits*>(packed + tiles.values) + (pair * tiles.groups + group) * 2 * kTile;
    const __mmask32 columns = first_of_32(problem.value_dim - pair * 32);
    const auto row = [&](std::int64_t key) {
      return key < count ? _mm512_maskz_loadu_epi16(columns, value + key * stride) : _mm512_setzero_si512();
    };
    for (int i = 0; i < 16; ++i) {
      const __m512i even = row(key_at(2 * i)), odd = row(key_at(2 * i) + 1);
      _mm512_store_si512(tile + i * 32, _mm512_unpacklo_epi16(even, odd));
      _mm512_store_si512(tile + kTile + i * 32, _mm512_unpackhi_epi16(even, odd));
    }
  }
}

/// Keys and values of one group as tiles: a tile's row holds, for each of 16 columns, a pair of elements that are
/// adjacent along the depth of the multiplication.
inline void pack_group(const AmxTiles& tiles, std::int64_t head, std::int64_t group, const Bits* k, const Bits* v,
                       std::byte* packed) {
  pack_keys(tiles, head, group, k, packed);
  pack_values(tiles, head, group, v, packed);
}

/// One row of sums, times `factor`, as up to 32 bf16. `lower` and `upper` are that row of the two tiles of a pair: the
/// first four and the last four columns of each eight, as pack_values() left them.
inline void store_row(const float* lower, const float* upper, float factor, std::int64_t columns, Bits* to) {
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512bh rounded =
      _mm512_cvtne2ps_pbh(_mm512_mul_ps(_mm512_load_ps(upper), factors), _mm512_mul_ps(_mm512_load_ps(lower), factors));
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  const __m512i result = _mm512_permutexvar_epi64(order, bits_as<__m512i>(rounded));
  if (columns >= 32) return _mm512_storeu_si512(to, result);
  _mm512_mask_storeu_epi16(to, first_of_32(columns), result);
}

}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

#endif
