#include "text/bpe_trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "text/tokenizer.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nlohmann::json vocabulary_of(const std::vector<std::string>& texts, std::size_t size) {
  BpeTrainer trainer;
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train(size);
}

/// "a b" of each merge.
std::vector<std::string> merges_of(const nlohmann::json& file) {
  std::vector<std::string> merges;
  for (const nlohmann::json& merge : file.at("model").at("merges"))
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return merges;
}

TEST(BpeTrainer, TrainsAsTheLibraryTokenizersDoes) {
  const std::filesystem::path goldens = source_dir(kSourceDir) / "tests/goldens/text";
  const auto texts = read_json(goldens / "strings.json").get<std::vector<std::string>>();
  const nlohmann::json expected = read_json(goldens / "bpe/tokenizer.json");
  const nlohmann::json trained = vocabulary_of(texts, 900);
  EXPECT_EQ(merges_of(trained), merges_of(expected));
  for (const auto& [key, value] : expected.items()) EXPECT_TRUE(trained.at(key) == value) << key;
}

TEST(BpeTrainer, JoinsTheMostFrequentPairFirst) {
  EXPECT_THAT(merges_of(vocabulary_of({"ab ab ab", "cd cd"}, 260)), ElementsAre("a b", "c d", "\u0120 ab"))
      << "'ab' three times, 'cd' and ' ab' twice; of equal counts the lowest ids come first";
}

TEST(BpeTrainer, JoinsOverlapsFromLeftToRight) {
  EXPECT_THAT(merges_of(vocabulary_of({"aaaaa"}, 400)), ElementsAre("a a", "aa a", "aa aaa"));
}

TEST(BpeTrainer, StopsWhereEveryWordIsOneToken) {
  const nlohmann::json trained = vocabulary_of({"abc"}, 5000);
  EXPECT_EQ(trained.at("model").at("vocab").size(), 257U + 2U);
  EXPECT_EQ(trained.at("model").at("vocab").at("<|endoftext|>"), 0);
  EXPECT_EQ(vocabulary_of({}, 257).at("model").at("vocab").size(), 257U);
}

TEST(BpeTrainer, DoesNotDependOnTheOrderOfTexts) {
  EXPECT_EQ(vocabulary_of({"one two", "two three", "three one"}, 300),
            vocabulary_of({"three one", "one two", "two three"}, 300));
}

TEST(BpeTrainer, RefusesWhatIsNotUtf8) {
  EXPECT_THAT(error_of([] { BpeTrainer().add("a\xff"); }), HasSubstr("UTF-8"));
}

TEST(BpeTrainer, WritesWhatATokenizerOpens) {
  const TempFolder folder;
  write_json(folder / "tokenizer.json", vocabulary_of({"the cat sat on the mat"}, 265));
  const Tokenizer tokenizer = open_tokenizer(folder.path());
  EXPECT_EQ(tokenizer.vocabulary_size(), 265);
  const std::vector<TokenId> ids = tokenizer.encode(" the mat \u2603<|endoftext|>").ids;
  std::string text;
  for (const TokenId id : ids) text += tokenizer.piece(id);
  EXPECT_THAT(text, HasSubstr("\u0120the\u0120mat\u0120"));
  EXPECT_EQ(ids.back(), 0);
}

}  // namespace
}  // namespace headroom
