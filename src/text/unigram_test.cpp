#include "text/unigram.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<TokenId> encode(const Unigram& model, std::string_view word) {
  std::vector<TokenId> ids;
  model.encode(word, ids);
  return ids;
}

TEST(Unigram, TakesTheLikeliestOfAllWays) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> score(-12, -1);
  for (int round = 0; round < 100; ++round) {
    std::vector<UnigramPiece> pieces = {{.text = "a", .score = score(random)}, {.text = "b", .score = score(random)}};
    for (const char* const text : {"ab", "ba", "aa", "aab", "bab", "abba"})
      pieces.push_back({.text = text, .score = score(random)});
    std::string word;
    for (int i = 0; i < 9; ++i) word += random() % 2 == 0 ? 'a' : 'b';
    // Enumerates all segmentations.
    double best = -std::numeric_limits<double>::infinity();
    const auto walk = [&](auto&& self, std::size_t at, double sum) -> void {
      if (at == word.size()) best = std::max(best, sum);
      for (const UnigramPiece& piece : pieces)
        if (word.compare(at, piece.text.size(), piece.text) == 0) self(self, at + piece.text.size(), sum + piece.score);
    };
    walk(walk, 0, 0);
    double sum = 0;
    std::string back;
    for (const TokenId id : encode(Unigram(pieces, {}, "test"), word)) {
      sum += pieces[static_cast<std::size_t>(id)].score;
      back += pieces[static_cast<std::size_t>(id)].text;
    }
    ASSERT_EQ(back, word);
    ASSERT_NEAR(sum, best, 1e-9) << word;
  }
}

TEST(Unigram, UnknownCharactersInARowAreOneToken) {
  const std::vector<UnigramPiece> pieces = {{.text = "<unk>"}, {.text = "a", .score = -1}};
  EXPECT_THAT(encode(Unigram(pieces, {.unknown = 0}, "test"), "xéa\U0001F98Ax"), ElementsAre(0, 1, 0));
  EXPECT_THAT(error_of([&] { static_cast<void>(encode(Unigram(pieces, {}, "test"), "ax")); }),
              HasSubstr("'x' is not in the vocabulary"));
}

TEST(Unigram, UnknownCharactersFallBackToBytes) {
  std::vector<UnigramPiece> pieces = {{.text = "<unk>"}};
  for (unsigned byte = 0; byte < 256; ++byte) pieces.push_back({.text = fmt::format("<0x{:02X}>", byte)});
  pieces.push_back({.text = "a", .score = -1});
  const Unigram model(pieces, {.unknown = 0, .byte_fallback = true}, "test");
  EXPECT_THAT(encode(model, "aé"), ElementsAre(257, 1 + 0xC3, 1 + 0xA9));
  pieces.erase(pieces.begin() + 100);
  EXPECT_THAT(error_of([&] { const Unigram broken(pieces, {.byte_fallback = true}, "test"); }), HasSubstr("<0x63>"));
}

}  // namespace
}  // namespace headroom
