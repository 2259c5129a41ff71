#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// The generator of base/tensors/random.hpp as inline functions, so that host and GPU generate the same bits. This
// requires that the compiler does not contract multiply and add into an FMA: the default on the host, --fmad=false
// for GPU code. Plain C++17 without library calls, because device code includes it.

#ifdef __CUDACC__
#define HR_HOST_DEVICE __host__ __device__
#else
#define HR_HOST_DEVICE
#endif

namespace headroom::random_inl {

/// Four words: a counter of Philox, or its output.
struct Words {
  std::uint32_t word[4];
};

/// Multipliers and key increments of Philox4x32 (Salmon et al. 2011, table 2 and section 4.4; the increments are the
/// golden ratio and sqrt(3) - 1).
HR_HOST_DEVICE inline Words philox4x32(Words counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
  constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// Words of block `block` (four elements) of a stream.
HR_HOST_DEVICE inline Words words_of(std::uint64_t seed, std::uint64_t stream, std::uint64_t block) {
  return philox4x32({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                      static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                    static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// Natural logarithm of a positive normal number, to about 1e-15 relative: the exponent is split off, and
/// ln m = 2 artanh((m - 1) / (m + 1)) is summed for m in [1/sqrt(2), sqrt(2)], where the argument stays below 0.172.
HR_HOST_DEVICE inline double natural_log(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  constexpr double kSqrt2 = 1.41421356237309504880;
  // Coefficients 1/19, 1/17, ..., 1 of the artanh series, innermost of Horner's scheme first.
  constexpr double kArtanhSeries[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                      1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U;
  double m = 0;  // [1, 2)
  std::memcpy(&m, &bits, sizeof m);
  if (m > kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (const double coefficient : kArtanhSeries) sum = sum * z + coefficient;
  return exponent * kLn2 + 2.0 * s * sum;
}

struct SineCosine {
  double sine;
  double cosine;
};

/// Sine and cosine of 2 pi u / 2^32. The nearest quarter turn is subtracted exactly, in integers; the rest, at most
/// an eighth of a turn, is evaluated by a Taylor series to below 1e-16.
HR_HOST_DEVICE inline SineCosine sine_cosine_of_turns(std::uint32_t u) {
  constexpr double kPi = 3.14159265358979323846;
  // Ratios 1 / (n (n + 1)) of consecutive terms, innermost of Horner's scheme first.
  constexpr double kSineRatios[] = {1.0 / (16 * 17), 1.0 / (14 * 15), 1.0 / (12 * 13), 1.0 / (10 * 11),
                                    1.0 / (8 * 9),   1.0 / (6 * 7),   1.0 / (4 * 5),   1.0 / (2 * 3)};
  constexpr double kCosineRatios[] = {1.0 / (17 * 18), 1.0 / (15 * 16), 1.0 / (13 * 14),
                                      1.0 / (11 * 12), 1.0 / (9 * 10),  1.0 / (7 * 8),
                                      1.0 / (5 * 6),   1.0 / (3 * 4),   1.0 / (1 * 2)};
  const std::uint32_t quarter = (u + 0x20000000U) >> 30;  // wraps from the last eighth to quarter 0
  const auto rest = static_cast<std::int32_t>(u - (quarter << 30));
  const double x = rest * (2.0 * kPi / 4294967296.0);
  const double z = x * x;
  double sine = 1.0;
  for (const double ratio : kSineRatios) sine = 1.0 - sine * z * ratio;
  sine *= x;
  double cosine = 1.0;
  for (const double ratio : kCosineRatios) cosine = 1.0 - cosine * z * ratio;
  switch (quarter & 3U) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

struct Four {
  float value[4];
};

/// Uniform in [0, 1), multiples of 2^-24.
HR_HOST_DEVICE inline Four uniforms(const Words& words) {
  Four result{};
  for (int i = 0; i < 4; ++i) result.value[i] = static_cast<float>(words.word[i] >> 8) * 0x1p-24F;
  return result;
}

/// Standard normals, by the Box-Muller transform.
HR_HOST_DEVICE inline Four normals(const Words& words) {
  Four result{};
  for (int i = 0; i < 4; i += 2) {
    const double u = (words.word[i] + 0.5) * 0x1p-32;  // in (0, 1): its logarithm is finite and negative
    const double radius = std::sqrt(-2.0 * natural_log(u));
    const SineCosine angle = sine_cosine_of_turns(words.word[i + 1]);
    result.value[i] = static_cast<float>(radius * angle.cosine);
    result.value[i + 1] = static_cast<float>(radius * angle.sine);
  }
  return result;
}

}  // namespace headroom::random_inl

#undef HR_HOST_DEVICE
