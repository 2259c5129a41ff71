// Tokenizers in GGUF files (tests/goldens/make_gguf_tokenizers.py) against the ids of the reference libraries.

#include "pipelines/stages/gguf_tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "text/readers/gguf_vocabulary.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path token_golden(const std::string& path) { return source_dir(kSourceDir) / "tests/goldens/text" / path; }

void expect_golden_ids(const std::string& folder, const char* strings_file, const std::string& ids_file) {
  const Tokenizer tokenizer = open_gguf_tokenizer(token_golden(folder + "/tokenizer.gguf"));
  const nlohmann::json strings = read_json(token_golden(strings_file)), expected = read_json(token_golden(ids_file));
  ASSERT_GE(strings.size(), 200U);
  ASSERT_EQ(strings.size(), expected.size());
  for (std::size_t i = 0; i < strings.size(); ++i)
    EXPECT_EQ(tokenizer.encode(strings[i].get<std::string>()).ids, expected[i].get<std::vector<TokenId>>())
        << folder << ", string " << i << ", " << strings[i].dump(-1, ' ', true);
}

TEST(GgufTokenizer, HasTheIdsOfQwen2) { expect_golden_ids("qwen2", "strings.json", "qwen2/ids.json"); }

TEST(GgufTokenizer, HasTheIdsOfT5) {
  expect_golden_ids("t5", "strings.json", "t5/ids.json");
  expect_golden_ids("t5", "t5/spaces.json", "t5/spaces_ids.json");
}

TEST(GgufTokenizer, IsTheFoldersOtherwise) {
  const Tokenizer stored = open_gguf_tokenizer(token_golden("t5/tokenizer.gguf"));
  const Tokenizer folder = open_tokenizer(token_golden("t5"));
  EXPECT_EQ(stored.vocabulary_size(), folder.vocabulary_size());
  EXPECT_EQ(stored.special_tokens().end, folder.special_tokens().end);
  EXPECT_EQ(stored.special_tokens().padding, folder.special_tokens().padding);
  EXPECT_EQ(stored.find("<extra_id_0>"), folder.find("<extra_id_0>"));
}

TEST(GgufTokenizer, FilesWithoutOneAreRefused) {
  const fs::path without = source_dir(kSourceDir) / "tests/goldens/single_files/flux-dev.gguf";
  EXPECT_FALSE(has_gguf_tokenizer(without));
  EXPECT_FALSE(has_gguf_tokenizer(token_golden("qwen2/tokenizer.json")));
  EXPECT_FALSE(has_gguf_tokenizer(token_golden("qwen2")));
  EXPECT_TRUE(has_gguf_tokenizer(token_golden("qwen2/tokenizer.gguf")));
  EXPECT_THAT(error_of([&] { static_cast<void>(open_gguf_tokenizer(without)); }), HasSubstr("holds no tokenizer"));
}

GgufVocabulary small_pairs() {
  return {.model = "gpt2",
          .pre = "qwen2",
          .tokens = {"a", "b", "ab", "<|endoftext|>"},
          .types = {1, 1, 1, 3},
          .scores = {},
          .merges = {"a b"},
          .charsmap = {},
          .end = 3,
          .padding = 3};
}

std::string error_with(void (*change)(GgufVocabulary&)) {
  GgufVocabulary stored = small_pairs();
  change(stored);
  return error_of([&] { static_cast<void>(make_tokenizer(stored, "x.gguf")); });
}

TEST(GgufTokenizer, ValuesThatDoNotFitAreRefused) {
  EXPECT_EQ(make_tokenizer(small_pairs(), "x.gguf").encode("ab<|endoftext|>b").ids, (std::vector<TokenId>{2, 3, 1}));
  EXPECT_THAT(error_with([](auto& stored) { stored.model = "llama"; }),
              HasSubstr("its tokenizer is a 'llama' (tokenizer.ggml.model), and only gpt2 and t5 are read"));
  EXPECT_THAT(error_with([](auto& stored) { stored.pre = "llama-bpe"; }), HasSubstr("splits words as 'llama-bpe'"));
  EXPECT_THAT(error_with([](auto& stored) { stored.tokens.clear(); }), HasSubstr("has no tokenizer.ggml.tokens"));
  EXPECT_THAT(error_with([](auto& stored) { stored.types.pop_back(); }), HasSubstr("has 3 values for 4 tokens"));
  EXPECT_THAT(error_with([](auto& stored) { stored.tokens[1] = "\xff"; }), HasSubstr("empty or not UTF-8"));
  EXPECT_THAT(error_with([](auto& stored) { stored.merges[0] = "ab"; }), HasSubstr("two pieces were expected"));
  EXPECT_THAT(error_with([](auto& stored) { stored.padding = 4; }), HasSubstr("the id 4 of its pad_token"));
  EXPECT_THAT(error_with([](auto& stored) { stored.model = "t5"; }), HasSubstr("scores has 0 values for 4 tokens"));
}

}  // namespace
}  // namespace headroom
