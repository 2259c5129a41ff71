// Compares tokenizers with the ids from the reference libraries for the same strings
// (tests/goldens/make_tokens.py and, for the byte pairs, make_language_models.py).

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "text/readers/sentencepiece_model.hpp"
#include "text/tokenizer.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

fs::path token_goldens() { return source_dir(kSourceDir) / "tests/goldens/text"; }

std::string pieces_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string result;
  for (const TokenId id : ids) result += fmt::format("{}:{} ", id, tokenizer.piece(id));
  return result;
}

void expect_ids(const Tokenizer& tokenizer, const fs::path& ids_file, const char* strings_file = "strings.json") {
  const nlohmann::json strings = read_json(token_goldens() / strings_file);
  const nlohmann::json expected = read_json(ids_file);
  ASSERT_GE(strings.size(), 200U);
  ASSERT_EQ(strings.size(), expected.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto ids = expected[i].get<std::vector<TokenId>>();
    const std::vector<TokenId> actual = tokenizer.encode(strings[i].get<std::string>()).ids;
    EXPECT_EQ(actual, ids) << "string " << i << ", " << strings[i].dump(-1, ' ', true) << "\n  is  "
                           << pieces_of(tokenizer, actual) << "\n  not " << pieces_of(tokenizer, ids);
  }
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kDigits[bits >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

TEST(TokensGolden, ClipOfVocabularyAndMerges) {
  expect_ids(open_tokenizer(token_goldens() / "clip"), token_goldens() / "clip/ids.json");
}

TEST(TokensGolden, TrainedBytePairs) {
  expect_ids(open_tokenizer(token_goldens() / "bpe"), token_goldens() / "bpe/ids.json");
}

TEST(TokensGolden, Qwen2OfTokenizerJson) {
  expect_ids(open_tokenizer(token_goldens() / "qwen2"), token_goldens() / "qwen2/ids.json");
}

/// FNV-1a of 64 bits, over four bytes an id.
std::uint64_t hash_of(const std::vector<TokenId>& ids) {
  std::uint64_t value = 0xCBF29CE484222325U;
  for (const TokenId id : ids)
    for (unsigned shift = 0; shift < 32; shift += 8)
      value = (value ^ (static_cast<std::uint32_t>(id) >> shift & 0xFFU)) * 0x100000001B3U;
  return value;
}

/// Prompts in and out of Qwen-Image's template (tests/goldens/make_prompt_ids.py), of which the file has hashes.
void expect_prompt_ids(const Tokenizer& tokenizer) {
  const nlohmann::json prompts = read_json(token_goldens() / "qwen2/prompts.json");
  const nlohmann::json expected = read_json(token_goldens() / "qwen2/prompt_ids.json");
  ASSERT_EQ(prompts.at("prompts").size(), 2000U);
  ASSERT_EQ(expected.size(), 2000U);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::string prompt;
    for (const nlohmann::json& part : prompts["prompts"][i])
      prompt += prompts["parts"][part.get<std::size_t>()].get<std::string>();
    const std::vector<TokenId> ids = tokenizer.encode(prompt).ids;
    EXPECT_EQ(ids.size(), expected[i][0].get<std::size_t>()) << "prompt " << i << ", " << prompt;
    EXPECT_EQ(fmt::format("{:016x}", hash_of(ids)), expected[i][1].get<std::string>())
        << "prompt " << i << ", " << prompt << "\n  is " << pieces_of(tokenizer, ids);
  }
}

TEST(TokensGolden, Qwen2OfPrompts) { expect_prompt_ids(open_tokenizer(token_goldens() / "qwen2")); }

TEST(TokensGolden, Qwen2OfVocabularyAndMerges) {
  // The same vocabulary in the older file formats, with the added tokens in their places.
  const nlohmann::json whole = read_json(token_goldens() / "qwen2/tokenizer.json");
  const TempFolder folder;
  write_json(folder / "vocab.json", whole["model"]["vocab"]);
  std::string merges = "#version: 0.2\n";
  for (const nlohmann::json& merge : whole["model"]["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  write_file_atomically(folder / "merges.txt", merges);
  nlohmann::json config = {{"tokenizer_class", "Qwen2Tokenizer"}};
  for (nlohmann::json token : whole["added_tokens"]) {
    const std::string id = std::to_string(token["id"].get<int>());
    token.erase("id");
    config["added_tokens_decoder"][id] = token;
  }
  write_json(folder / "tokenizer_config.json", config);
  expect_ids(open_tokenizer(folder.path()), token_goldens() / "qwen2/ids.json");
  expect_prompt_ids(open_tokenizer(folder.path()));
}

/// T5's tokenizer.json, whose character map equals that of spiece.model.
nlohmann::json t5_json() {
  nlohmann::json file = read_json(token_goldens() / "t5/unigram.json");
  const SentencepieceModel model = read_sentencepiece_model(token_goldens() / "t5/spiece.model");
  file["normalizer"]["normalizers"][0]["precompiled_charsmap"] = base64(model.charsmap);
  return file;
}

void expect_t5_ids(const Tokenizer& tokenizer) {
  expect_ids(tokenizer, token_goldens() / "t5/ids.json");
  expect_ids(tokenizer, token_goldens() / "t5/spaces_ids.json", "t5/spaces.json");
}

TEST(TokensGolden, T5OfSpieceModel) { expect_t5_ids(open_tokenizer(token_goldens() / "t5")); }

TEST(TokensGolden, T5OfTokenizerJson) {
  const TempFolder folder;
  nlohmann::json file = t5_json();
  // transformers does not take these steps from the file, and neither do we.
  file["pre_tokenizer"] = {{"type", "Whitespace"}};
  file["post_processor"] = nullptr;
  write_json(folder / "tokenizer.json", file);
  expect_t5_ids(open_tokenizer(folder.path(), "T5TokenizerFast"));
  write_json(folder / "tokenizer_config.json", {{"tokenizer_class", "T5Tokenizer"}});
  expect_t5_ids(open_tokenizer(folder.path()));
}

TEST(TokensGolden, TokenizerJsonOfNoClassIsTakenAsWritten) {
  const TempFolder folder;
  write_json(folder / "tokenizer.json", t5_json());
  expect_ids(open_tokenizer(folder.path()), token_goldens() / "t5/as_written_ids.json");
}

TEST(TokensGolden, LongPromptsAreTheirWordsOneAfterTheOther) {
  const Tokenizer clip = open_tokenizer(token_goldens() / "clip");
  const Tokenizer t5 = open_tokenizer(token_goldens() / "t5");
  const EncodeOptions bare{.add_special_tokens = false};
  constexpr std::size_t kWords = 100'000;
  std::string prompt;
  for (std::size_t i = 0; i < kWords; ++i) prompt += "red fox ";
  for (const Tokenizer* tokenizer : {&clip, &t5}) {
    const std::vector<TokenId> once = tokenizer->encode("red fox", bare).ids;
    const std::vector<TokenId> all = tokenizer->encode(prompt, bare).ids;
    ASSERT_EQ(all.size(), kWords * once.size());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], once[i % once.size()]) << i;
  }
}

}  // namespace
}  // namespace headroom
