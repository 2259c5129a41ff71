#include "base/files/hash.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace headroom {
namespace {

std::uint64_t of(auto... values) {
  Hasher hasher;
  (hasher.add(values), ...);
  return hasher.digest();
}

// Hashes are stored in result files: a change here makes old results incomparable.
TEST(Hasher, IsStable) {
  EXPECT_EQ(Hasher().hex(), "efd01f60ba992926");
  EXPECT_EQ(Hasher().add("headroom").add(42).add(1.5).add(DType::kBF16).add(Shape{2, 3}).hex(), "938b2446a351fe79");
}

TEST(Hasher, HexIsTheDigestIn16Digits) {
  for (int i = 0; i < 100; ++i) {
    const Hasher hasher = Hasher().add(i);
    EXPECT_EQ(hasher.hex().size(), 16U);
    EXPECT_EQ(std::stoull(hasher.hex(), nullptr, 16), hasher.digest());
  }
}

TEST(Hasher, TellsSequencesApart) {
  EXPECT_NE(of("ab", "c"), of("a", "bc"));
  EXPECT_NE(of("abc"), of("ab", "c"));
  EXPECT_NE(of(""), of());
  EXPECT_NE(of(1, 2), of(2, 1));
  EXPECT_NE(of(Shape{2, 3}, Shape{4}), of(Shape{2}, Shape{3, 4}));
  EXPECT_NE(of(0.0), of(-0.0));
  EXPECT_NE(of(DType::kF16), of(DType::kBF16));
}

TEST(Hasher, IntegerWidthDoesNotMatter) {
  EXPECT_EQ(of(std::int64_t{-1}), of(std::int8_t{-1}));
  EXPECT_EQ(of(7U), of(std::int64_t{7}));
  EXPECT_EQ(of(true), of(1));
}

TEST(Hasher, EveryInputBitMovesAboutHalfTheOutput) {
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t word = 0x0123456789ABCDEFU;
    const int moved = std::popcount(of(word) ^ of(word ^ (std::uint64_t{1} << bit)));
    EXPECT_GT(moved, 12) << "bit " << bit;
    EXPECT_LT(moved, 52) << "bit " << bit;
  }
}

TEST(Hasher, SmallInputsDoNotCollide) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100000; ++i) seen.insert(of(i, "x"));
  EXPECT_EQ(seen.size(), 100000U);
}

}  // namespace
}  // namespace headroom
