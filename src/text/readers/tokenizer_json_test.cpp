#include "text/readers/tokenizer_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/test_util.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json small_bpe() {
  return {{"added_tokens", {{{"id", 3}, {"content", "<s>"}, {"special", true}}}},
          {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
}

Tokenizer open(const json& file) {
  const TempFolder folder;
  write_json(folder / "tokenizer.json", file);
  return open_tokenizer(folder.path());
}

TEST(TokenizerJson, ReadsTheLeastThatAFileMayHold) {
  const Tokenizer tokenizer = open(small_bpe());
  EXPECT_THAT(tokenizer.encode("aab<s>b").ids, ElementsAre(0, 2, 3, 1));
  EXPECT_EQ(tokenizer.vocabulary_size(), 4);
}

TEST(TokenizerJson, PutsAroundATextWhatItsProcessorsSay) {
  json file = small_bpe();
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}},
        {{"type", "TemplateProcessing"},
         {"single", {{{"SpecialToken", {{"id", "S"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
         {"pair", json::array()},
         {"special_tokens", {{"S", {{"id", "S"}, {"ids", {3}}, {"tokens", {"<s>"}}}}}}}}}};
  EXPECT_THAT(open(file).encode("b").ids, ElementsAre(3, 1));
  EXPECT_THAT(open(file).encode("b", {.add_special_tokens = false}).ids, ElementsAre(1));
  file["post_processor"] = {{"type", "RobertaProcessing"}, {"cls", {"<s>", 3}}, {"sep", {"a", 0}}};
  EXPECT_THAT(open(file).encode("b").ids, ElementsAre(3, 1, 0));
}

TEST(TokenizerJson, ANormalizedTokenIsFoundInItsNormalForm) {
  json file = small_bpe();
  file["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(open(file).encode("<S>B").ids, ElementsAre(1));
  file["added_tokens"][0]["normalized"] = true;
  EXPECT_THAT(open(file).encode("<S>B").ids, ElementsAre(3, 1));
}

/// The error for the small file with `value` at `pointer`.
std::string error_with(const char* pointer, const json& value) {
  json file = small_bpe();
  file[json::json_pointer(pointer)] = value;
  return error_of([&] { static_cast<void>(open(file)); });
}

TEST(TokenizerJson, NamesTheKeyThatItDoesNotKnow) {
  EXPECT_THAT(error_with("/normalizer", {{"type", "Nmt"}}),
              HasSubstr("tokenizer.json.normalizer is of the type \"Nmt\""));
  EXPECT_THAT(error_with("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}, {"x", 1}}}}}),
              HasSubstr("normalizer.normalizers[0] has the key \"x\""));
  EXPECT_THAT(error_with("/pre_tokenizer", {{"type", "Digits"}}), HasSubstr("pre_tokenizer is of the type \"Digits\""));
  EXPECT_THAT(error_with("/post_processor", {{"type", "X"}}), HasSubstr("post_processor is of the type \"X\""));
  EXPECT_THAT(error_with("/model/type", "WordPiece"), HasSubstr("model.type is \"WordPiece\""));
  EXPECT_THAT(error_with("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(error_with("/model/byte_fallback", true), HasSubstr("byte_fallback"));
  EXPECT_THAT(error_with("/model/continuing_subword_prefix", "##"), HasSubstr("continuing_subword_prefix"));
  EXPECT_THAT(error_with("/added_tokens/0/single_word", true), HasSubstr("added_tokens[0].single_word"));
  EXPECT_THAT(error_with("/unheard_of", 1), HasSubstr("has the key \"unheard_of\""));
}

TEST(TokenizerJson, NamesWhatIsBroken) {
  EXPECT_THAT(error_with("/model/merges/0", "a b c"), HasSubstr("model.merges[0] is \"a b c\""));
  EXPECT_THAT(error_with("/model/vocab/b", 0), HasSubstr("have the same id 0"));
  EXPECT_THAT(error_with("/model/vocab/b", -4), HasSubstr("is -4, but an id"));
  EXPECT_THAT(error_with("/added_tokens/0/id", 1), HasSubstr("have the same id 1"));
  EXPECT_THAT(error_with("/model", json::parse(R"({"type": "Unigram", "vocab": [["a", "b"]]})")),
              HasSubstr("model.vocab[0]"));
  EXPECT_THAT(error_with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}), HasSubstr("base64"));
  EXPECT_THAT(error_with("/normalizer", {{"type", "Sequence"}, {"normalizers", 1}}), HasSubstr("array"));
}

}  // namespace
}  // namespace headroom
