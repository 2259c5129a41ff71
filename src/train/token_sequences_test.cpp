#include "train/token_sequences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::vector<std::uint16_t> counted(std::size_t count) {
  std::vector<std::uint16_t> ids(count);
  std::iota(ids.begin(), ids.end(), std::uint16_t{0});
  return ids;
}

TEST(TokenSequences, GoThroughEverySequenceOnceAnEpoch) {
  for (const std::size_t count : {16U, 17U, 100U, 1003U}) {
    const std::vector<std::uint16_t> ids = counted(count);
    const TokenSequences sequences(ids, 8, 3);
    std::set<std::int64_t> offsets;
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      std::set<std::int64_t> starts;
      for (std::int64_t i = 0; i < sequences.per_epoch(); ++i)
        starts.insert(sequences.start(epoch * sequences.per_epoch() + i));
      EXPECT_EQ(std::ssize(starts), sequences.per_epoch());
      for (const std::int64_t start : starts) EXPECT_EQ((start - *starts.begin()) % 8, 0);
      EXPECT_GE(*starts.begin(), 0);
      EXPECT_LE(*starts.rbegin() + 9, static_cast<std::int64_t>(count));
      offsets.insert(*starts.begin());
    }
    EXPECT_GT(offsets.size(), 1U);
  }
}

TEST(TokenSequences, AreAFunctionOfSeedAndNumber) {
  const std::vector<std::uint16_t> ids = counted(5000);
  const auto starts = [&](std::uint64_t seed, std::int64_t from) {
    const TokenSequences sequences(ids, 8, seed);
    std::vector<std::int64_t> each;
    for (std::int64_t i = 0; i < 100; ++i) each.push_back(sequences.start(from + i));
    return each;
  };
  EXPECT_EQ(starts(1, 300), starts(1, 300));
  EXPECT_NE(starts(1, 300), starts(2, 300));
  EXPECT_NE(starts(1, 300), starts(1, 301));
  EXPECT_FALSE(std::ranges::is_sorted(starts(1, 0)));
  // Sequences of several steps at once are those of the steps one by one.
  const TokenSequences sequences(ids, 8, 1);
  HostTensor both(DType::kI32, {2, 3, 9}), one(DType::kI32, {1, 3, 9});
  sequences.fill(both, 12);
  sequences.fill(one, 15);
  for (std::int64_t i = 0; i < one.numel(); ++i) EXPECT_EQ(one.at(i), both.at(one.numel() + i));
  for (std::int64_t i = 1; i < 9; ++i) EXPECT_EQ(one.at(i), one.at(0) + static_cast<double>(i));
}

TEST(TokenSequences, InOrderAreTheSameForEverySeed) {
  const std::vector<std::uint16_t> ids = counted(30);
  HostTensor found(DType::kI32, {4, 9});
  TokenSequences(ids, 8, 77).fill_in_order(found, 1);
  const double starts[] = {8, 0, 8, 0};
  for (std::int64_t row = 0; row < 4; ++row) EXPECT_EQ(found.at(9 * row), starts[row]);
}

TEST(TokenSequences, NeedTokens) {
  const std::vector<std::uint16_t> ids = counted(15);
  EXPECT_THAT(error_of([&] { static_cast<void>(TokenSequences(ids, 8, 0)); }),
              HasSubstr("it has 15 tokens, expected at least two sequences of 8"));
}

}  // namespace
}  // namespace headroom
