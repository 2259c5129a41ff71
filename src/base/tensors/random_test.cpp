#include "base/tensors/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/files/hash.hpp"

namespace headroom {
namespace {

using Counter = std::array<std::uint32_t, 4>;
constexpr std::uint32_t kOnes = 0xFFFFFFFFU;

// The known answers for philox4x32 with 10 rounds that the authors publish with the paper (Random123, kat_vectors); the
// last takes its counter and key from the digits of pi.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Counter{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x408F276DU, 0x41C83B0EU, 0xA20BC7C6U, 0x6D5451FDU}));
  EXPECT_EQ(philox4x32({0x243F6A88U, 0x85A308D3U, 0x13198A2EU, 0x03707344U}, {0xA4093822U, 0x299F31D0U}),
            (Counter{0xD16CFE09U, 0x94FDCCEBU, 0x5001E420U, 0x24126EA1U}));
}

template <typename Fill>
void expect_independent_of_pieces(Fill fill) {
  std::vector<float> whole(1001);
  fill(whole, 7U, 9U, 0U);
  for (const std::size_t piece : {1U, 2U, 3U, 4U, 5U, 64U}) {
    std::vector<float> pieces(whole.size());
    for (std::size_t at = 0; at < pieces.size(); at += piece) {
      fill(std::span(pieces).subspan(at, std::min(piece, pieces.size() - at)), 7U, 9U, at);
    }
    EXPECT_EQ(pieces, whole) << "in pieces of " << piece;
  }
  std::vector<float> other(whole.size());
  fill(other, 8U, 9U, 0U);
  EXPECT_NE(other, whole);
  fill(other, 7U, std::uint64_t{9} + (std::uint64_t{1} << 40), 0U);
  EXPECT_NE(other, whole);
  fill(other, 7U + (std::uint64_t{1} << 40), 9U, 0U);
  EXPECT_NE(other, whole);
}

TEST(Random, ElementsDoNotDependOnTheCall) {
  expect_independent_of_pieces(fill_uniform);
  expect_independent_of_pieces(fill_normal);
}

TEST(Random, OffsetsBeyond32Bits) {
  const std::uint64_t far = std::uint64_t{4} << 32;  // block 2^32
  std::array<float, 4> out{};
  fill_uniform(out, 0, 0, far);
  const Counter words = philox4x32({0, 1, 0, 0}, {0, 0});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], static_cast<float>(words[i] >> 8) / 16777216.0F);
}

// The bits are part of the contract: a result measured on one machine can be repeated on another with the same
// weights.
TEST(Random, SameBitsOnEveryPlatform) {
  std::vector<float> values(1 << 16);
  fill_normal(values, 1, 2);
  EXPECT_EQ(Hasher().add(std::as_bytes(std::span(values))).hex(), "da60b072674a2b0b");
  fill_uniform(values, 1, 2);
  EXPECT_EQ(Hasher().add(std::as_bytes(std::span(values))).hex(), "0c9d9661bf5fa0d1");
}

TEST(Random, UniformStaysInRangeAndIsFlat) {
  std::vector<float> values(1 << 20);
  fill_uniform(values, 3, 0);
  std::array<int, 16> counts{};
  for (const float value : values) {
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    ++counts[static_cast<std::size_t>(value * 16.0F)];
  }
  double chi_squared = 0;
  const double expected = static_cast<double>(values.size()) / 16.0;
  for (const int count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_squared, 37.7);  // 15 degrees of freedom, p = 0.001
}

TEST(Random, NormalHasItsMomentsAndTails) {
  std::vector<float> values(1 << 20);
  fill_normal(values, 3, 0);
  const double n = static_cast<double>(values.size());
  double sum = 0, square = 0, cube = 0, fourth = 0, lag = 0;
  int beyond_two = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(values[i]);
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    square += x * x;
    cube += x * x * x;
    fourth += x * x * x * x;
    if (i > 0) lag += x * static_cast<double>(values[i - 1]);
    beyond_two += std::fabs(x) > 2 ? 1 : 0;
  }
  // Four standard errors each: the variances of x, x^2, x^3, x^4 and x y are 1, 2, 15, 96 and 1.
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(cube / n, 0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96 / n));
  EXPECT_NEAR(lag / n, 0, 4 / std::sqrt(n));
  const double p = 0.0455002638963584;
  EXPECT_NEAR(beyond_two / n, p, 4 * std::sqrt(p * (1 - p) / n));
}

// The transform itself against the C library, which rounds differently but not by more than an ulp or so.
TEST(Random, NormalIsBoxMullerOfPhilox) {
  std::vector<float> values(4096);
  fill_normal(values, 11, 5);
  for (std::uint32_t block = 0; block < values.size() / 4; ++block) {
    const Counter words = philox4x32({block, 0, 5, 0}, {11, 0});
    for (std::size_t i = 0; i < 4; i += 2) {
      const double radius = std::sqrt(-2 * std::log((words[i] + 0.5) / 4294967296.0));
      const double angle = 2 * std::acos(-1.0) * words[i + 1] / 4294967296.0;
      const std::size_t at = block * 4 + i;
      EXPECT_NEAR(static_cast<double>(values[at]), radius * std::cos(angle), 4e-7);
      EXPECT_NEAR(static_cast<double>(values[at + 1]), radius * std::sin(angle), 4e-7);
    }
  }
}

}  // namespace
}  // namespace headroom
