#include "text/bpe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The single letters a to d, and the results of `merges`.
Vocabulary vocabulary_of(const std::vector<Bpe::Merge>& merges) {
  Vocabulary vocabulary;
  for (const char letter : std::string("abcd")) vocabulary.add(std::string(1, letter), vocabulary.size(), "test");
  for (const auto& [left, right] : merges)
    if (!vocabulary.find(left + right)) vocabulary.add(left + right, vocabulary.size(), "test");
  return vocabulary;
}

std::vector<std::string> pieces(const Vocabulary& vocabulary, const TokenModel& model, std::string_view word) {
  std::vector<TokenId> ids;
  model.encode(word, ids);
  std::vector<std::string> result;
  for (const TokenId id : ids) result.push_back(vocabulary.piece(id));
  return result;
}

/// The definition: repeatedly applies the earliest merge that occurs in the word, at its leftmost position.
std::vector<std::string> merged_by_hand(std::string_view word, const std::vector<Bpe::Merge>& merges) {
  std::vector<std::string> parts;
  for (const char letter : word) parts.emplace_back(1, letter);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t m = 0; m < merges.size() && !changed; ++m) {
      for (std::size_t i = 0; i + 1 < parts.size() && !changed; ++i) {
        if (parts[i] != merges[m].first || parts[i + 1] != merges[m].second) continue;
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        changed = true;
      }
    }
  }
  return parts;
}

TEST(Bpe, JoinsTheEarliestMergeFirstWhereverItStands) {
  const std::vector<Bpe::Merge> merges = {{"b", "c"}, {"a", "b"}, {"a", "bc"}};
  const Vocabulary vocabulary = vocabulary_of(merges);
  const Bpe bpe(vocabulary, merges, {}, "test");
  EXPECT_THAT(pieces(vocabulary, bpe, "abcab"), ElementsAre("abc", "ab"));
}

TEST(Bpe, IsItsDefinitionForRandomMergesAndWords) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Bpe::Merge> merges;
    std::vector<std::string> known = {"a", "b", "c", "d"};
    for (int i = 0; i < 12; ++i) {
      Bpe::Merge merge{known[random() % known.size()], known[random() % known.size()]};
      if (std::ranges::find(merges, merge) != merges.end()) continue;
      known.push_back(merge.first + merge.second);
      merges.push_back(std::move(merge));
    }
    const Vocabulary vocabulary = vocabulary_of(merges);
    const Bpe bpe(vocabulary, merges, {}, "test");
    std::string word;
    for (std::size_t i = 0; i < 1 + random() % 30; ++i) word += static_cast<char>('a' + random() % 4);
    ASSERT_EQ(pieces(vocabulary, bpe, word), merged_by_hand(word, merges)) << word;
  }
}

TEST(Bpe, AWordsLastCharacterHasTheEnding) {
  Vocabulary vocabulary;
  for (const char* const piece : {"a", "b", "a</w>", "b</w>", "ab</w>", "?"})
    vocabulary.add(piece, vocabulary.size(), "test");
  const std::vector<Bpe::Merge> merges = {{"a", "b</w>"}};
  const Bpe bpe(vocabulary, merges, {.end_of_word = "</w>", .unknown = vocabulary.find("?")}, "test");
  EXPECT_THAT(pieces(vocabulary, bpe, "aab"), ElementsAre("a", "ab</w>"));
  EXPECT_THAT(pieces(vocabulary, bpe, "b"), ElementsAre("b</w>"));
  EXPECT_THAT(pieces(vocabulary, bpe, "azz"), ElementsAre("a", "?", "?"));
}

TEST(Bpe, UnknownCharactersAreLeftOutOrOneOrAllThere) {
  const Vocabulary vocabulary = vocabulary_of({});
  const auto of = [&](const BpeOptions& options) {
    return pieces(vocabulary, Bpe(vocabulary, {}, options, "test"), "axyb");
  };
  EXPECT_THAT(of({}), ElementsAre("a", "b"));
  EXPECT_THAT(of({.unknown = 3}), ElementsAre("a", "d", "d", "b"));
  EXPECT_THAT(of({.unknown = 3, .fuse_unknown = true}), ElementsAre("a", "d", "b"));
}

TEST(Bpe, AWholeWordMayGoBeforeMerges) {
  Vocabulary vocabulary = vocabulary_of({});
  vocabulary.add("abc", vocabulary.size(), "test");
  EXPECT_THAT(pieces(vocabulary, Bpe(vocabulary, {}, {}, "test"), "abc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(pieces(vocabulary, Bpe(vocabulary, {}, {.whole_words_first = true}, "test"), "abc"), ElementsAre("abc"));
}

TEST(Bpe, AMergeOutsideTheVocabularyIsAnError) {
  const std::vector<Bpe::Merge> merges = {{"a", "b"}};
  EXPECT_THAT(error_of([&] { const Bpe bpe(vocabulary_of({}), merges, {}, "merges.txt"); }),
              HasSubstr("merges.txt: the merge 0 of 'a' and 'b': 'ab' is not in the vocabulary"));
}

}  // namespace
}  // namespace headroom
