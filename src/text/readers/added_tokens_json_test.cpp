// Tokens that were added to a vocabulary, in the file formats of several versions of transformers. The expected
// results are those of transformers 5.24.0.

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
#include "text/tokenizer.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

fs::path tokenizer_goldens() { return source_dir(kSourceDir) / "tests/goldens/text"; }

class AddedTokensJson : public testing::Test {
 protected:
  /// CLIP's files without a tokenizer_config.json; returns the number of ids.
  TokenId make_clip() {
    for (const char* const name : {"vocab.json", "merges.txt"})
      fs::copy(tokenizer_goldens() / "clip" / name, folder_ / name);
    write_json(folder_ / "tokenizer_config.json", {{"tokenizer_class", "CLIPTokenizer"}});
    return static_cast<TokenId>(read_json(folder_ / "vocab.json").size());
  }
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text) const {
    return open_tokenizer(folder_.path()).encode(text, {.add_special_tokens = false}).ids;
  }
  [[nodiscard]] std::string error() const {
    return error_of([&] { static_cast<void>(open_tokenizer(folder_.path())); });
  }

  TempFolder folder_;
};

TEST_F(AddedTokensJson, ATextualInversionIsOneToken) {
  const TokenId next = make_clip();
  write_json(folder_ / "added_tokens.json", {{"<cat-toy>", next}, {"<cat-toy>_1", next + 1}});
  EXPECT_THAT(encode("<cat-toy>"), ElementsAre(next));
  EXPECT_THAT(encode("<cat-toy>_1 <cat-toy>"), ElementsAre(next + 1, next));
  EXPECT_THAT(encode("<Cat-Toy>"), ElementsAre(next)) << "no special token, so it is found in the normalized text";
  EXPECT_EQ(open_tokenizer(folder_.path()).vocabulary_size(), next + 2);
}

TEST_F(AddedTokensJson, ATokenThatIsNamedAsSpecialIsNotNormalized) {
  const TokenId next = make_clip();
  write_json(folder_ / "added_tokens.json", {{"<Toy>", next}, {"<PAD>", next + 1}});
  write_json(folder_ / "special_tokens_map.json", {{"additional_special_tokens", {"<Toy>"}}, {"pad_token", "<PAD>"}});
  EXPECT_THAT(encode("<Toy><PAD>"), ElementsAre(next, next + 1));
  EXPECT_THAT(encode("<toy>"), Not(Contains(next)));
  EXPECT_EQ(open_tokenizer(folder_.path()).special_tokens().padding, next + 1);
}

TEST_F(AddedTokensJson, TheMapOfSpecialTokensGoesBeforeTheConfig) {
  make_clip();
  write_json(folder_ / "tokenizer_config.json", {{"tokenizer_class", "CLIPTokenizer"}, {"pad_token", "<|endoftext|>"}});
  write_json(folder_ / "special_tokens_map.json", {{"pad_token", {{"content", "!"}, {"lstrip", false}}}});
  const Tokenizer clip = open_tokenizer(folder_.path());
  EXPECT_EQ(clip.special_tokens().padding, clip.find("!"));
}

TEST_F(AddedTokensJson, NothingElseIsReadWithAListById) {
  const TokenId next = make_clip();
  write_json(folder_ / "added_tokens.json", {{"<cat-toy>", next}});
  write_json(folder_ / "special_tokens_map.json", {{"pad_token", "!"}});
  write_json(folder_ / "tokenizer_config.json",
             {{"tokenizer_class", "CLIPTokenizer"},
              {"added_tokens_decoder", {{std::to_string(next), {{"content", "<dog>"}, {"normalized", true}}}}}});
  EXPECT_THAT(encode("<dog>"), ElementsAre(next));
  EXPECT_THAT(encode("<cat-toy>"), Not(Contains(next)));
  const Tokenizer clip = open_tokenizer(folder_.path());
  EXPECT_EQ(clip.special_tokens().padding, clip.find("<|endoftext|>"));
}

TEST_F(AddedTokensJson, AreReadWithTokenizerJsonAndSpieceModelToo) {
  json file = read_json(tokenizer_goldens() / "qwen2/tokenizer.json");
  const auto next = static_cast<TokenId>(file["model"]["vocab"].size() + file["added_tokens"].size());
  write_json(folder_ / "tokenizer.json", file);
  write_json(folder_ / "added_tokens.json", {{"<cat-toy>", next}});
  EXPECT_THAT(encode("<cat-toy>"), ElementsAre(next));
  fs::remove(folder_ / "tokenizer.json");
  fs::copy(tokenizer_goldens() / "t5/spiece.model", folder_ / "spiece.model");
  fs::remove(folder_ / "added_tokens.json");
  const TokenId of_t5 = open_tokenizer(folder_.path()).vocabulary_size();
  write_json(folder_ / "added_tokens.json", {{"<cat-toy>", of_t5}});
  EXPECT_THAT(encode("<cat-toy>"), ElementsAre(of_t5));
  EXPECT_EQ(open_tokenizer(folder_.path()).find("<extra_id_0>"), of_t5 - 1);
}

TEST_F(AddedTokensJson, WhatTransformers5CallsExtraSpecialTokensIsRead) {
  const TokenId next = make_clip();
  for (const json& named : {json{"<A>", "<B>"}, json{{"a", "<A>"}, {"b", "<B>"}}}) {
    write_json(folder_ / "tokenizer_config.json",
               {{"tokenizer_class", "CLIPTokenizer"}, {"extra_special_tokens", named}});
    EXPECT_THAT(encode("<B><A>"), ElementsAre(next + 1, next)) << named;
  }
}

TEST_F(AddedTokensJson, SaysWhatIsBroken) {
  const TokenId next = make_clip();
  const std::string path = folder_ / "added_tokens.json";
  write_json(path, json::array({"<a>"}));
  EXPECT_EQ(error(), path + " is array, but an object was expected");
  write_json(path, {{"<a>", "one"}});
  EXPECT_THAT(error(), HasSubstr(path + ".<a> is \"one\", but an id was expected"));
  write_json(path, {{"<a>", -1}});
  EXPECT_THAT(error(), HasSubstr(path + ".<a> is -1"));
  write_json(path, {{"<a>", 0}});
  EXPECT_THAT(error(), AllOf(HasSubstr(path), HasSubstr("have the same id 0")));
  write_json(path, {{"!", next}});
  EXPECT_THAT(error(), AllOf(HasSubstr(path), HasSubstr("'!' has two ids")));
  write_json(path, {{"", next}});
  EXPECT_EQ(error(), path + " has an empty token");
  fs::remove(path);
  for (const char* const name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const std::string file = folder_ / name;
    write_json(file, json::array());
    EXPECT_EQ(error(), file + " is array, but an object was expected");
    fs::remove(file);
  }
}

}  // namespace
}  // namespace headroom
