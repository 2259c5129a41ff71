#include "base/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace headroom {
namespace {

// Multipliers and key increments of Philox4x32 (Salmon et al. 2011, table 2 and section 4.4; the increments are the
// golden ratio and sqrt(3) - 1).
constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
constexpr int kRounds = 10;

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.693147180559945309417;
constexpr double kSqrt2 = 1.41421356237309504880;

// Series coefficients, innermost of Horner's scheme first: 1/19, 1/17, ..., 1 for artanh, and for sine and cosine the
// ratios 1 / (n (n + 1)) of terms that follow each other.
constexpr std::array kArtanhSeries{1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                   1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
constexpr std::array kSineRatios{1.0 / (16 * 17), 1.0 / (14 * 15), 1.0 / (12 * 13), 1.0 / (10 * 11),
                                 1.0 / (8 * 9),   1.0 / (6 * 7),   1.0 / (4 * 5),   1.0 / (2 * 3)};
constexpr std::array kCosineRatios{1.0 / (17 * 18), 1.0 / (15 * 16), 1.0 / (13 * 14), 1.0 / (11 * 12), 1.0 / (9 * 10),
                                   1.0 / (7 * 8),   1.0 / (5 * 6),   1.0 / (3 * 4),   1.0 / (1 * 2)};

/// Natural logarithm of a positive normal number, to about 1e-15 relative: the exponent is split off, and
/// ln m = 2 artanh((m - 1) / (m + 1)) is summed for m in [1/sqrt(2), sqrt(2)], where the argument stays below 0.172.
double natural_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U);  // [1, 2)
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

/// Sine and cosine of 2 pi u / 2^32. The quarter turn nearest to u is taken out exactly, in integers; the rest, at most
/// an eighth of a turn, goes through the Taylor series to below 1e-16.
SineCosine sine_cosine_of_turns(std::uint32_t u) {
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

std::array<float, 4> uniforms(const std::array<std::uint32_t, 4>& words) {
  std::array<float, 4> result{};
  for (std::size_t i = 0; i < 4; ++i) result[i] = static_cast<float>(words[i] >> 8) * 0x1p-24F;
  return result;
}

std::array<float, 4> normals(const std::array<std::uint32_t, 4>& words) {
  std::array<float, 4> result{};
  for (std::size_t i = 0; i < 4; i += 2) {
    const double u = (words[i] + 0.5) * 0x1p-32;  // in (0, 1): its logarithm is finite and negative
    const double radius = std::sqrt(-2.0 * natural_log(u));
    const SineCosine angle = sine_cosine_of_turns(words[i + 1]);
    result[i] = static_cast<float>(radius * angle.cosine);
    result[i + 1] = static_cast<float>(radius * angle.sine);
  }
  return result;
}

/// Fills `out` from blocks of four elements; the blocks at both ends may be cut.
template <typename Transform>
void fill(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset, Transform transform) {
  const std::array key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  std::size_t skip = offset % 4;
  for (std::uint64_t block = offset / 4; !out.empty(); ++block, skip = 0) {
    const std::array<float, 4> values =
        transform(philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                              static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                             key));
    const std::size_t count = std::min(4 - skip, out.size());
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(skip), count, out.begin());
    out = out.subspan(count);
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

void fill_uniform(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset) {
  fill(out, seed, stream, offset, uniforms);
}

void fill_normal(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t offset) {
  fill(out, seed, stream, offset, normals);
}

}  // namespace headroom
