#include "text/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "text/byte_alphabet.hpp"
#include "text/unicode.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::filesystem::path goldens() { return source_dir(kSourceDir) / "tests/goldens/text"; }

TEST(Tokenizer, TruncatesBetweenWhatIsPutAroundAText) {
  const Tokenizer clip = open_tokenizer(goldens() / "clip");
  const TokenId begin = clip.special_tokens().begin.value();
  const TokenId end = clip.special_tokens().end.value();
  const std::vector<TokenId> whole = clip.encode("a photo of the red fox").ids;
  ASSERT_GT(whole.size(), 6U);
  const std::vector<TokenId> cut = clip.encode("a photo of the red fox", {.max_length = 6}).ids;
  EXPECT_THAT(cut, ElementsAre(begin, whole[1], whole[2], whole[3], whole[4], end));
  EXPECT_THAT(clip.encode("a photo", {.max_length = 2}).ids, ElementsAre(begin, end));
}

TEST(Tokenizer, PadsWithTheFoldersTokenAndMasksIt) {
  const Tokenizer t5 = open_tokenizer(goldens() / "t5");
  EXPECT_EQ(t5.special_tokens().padding, 0);
  const EncodedText padded = t5.encode("", {.max_length = 4, .padding = Padding::kToMaxLength});
  EXPECT_THAT(padded.ids, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(padded.attention_mask, ElementsAre(1, 0, 0, 0));
}

TEST(Tokenizer, PadsAndCutsOnTheSidesThatTheFolderNames) {
  const TempFolder folder;
  std::filesystem::copy(goldens() / "t5/spiece.model", folder / "spiece.model");
  write_json(folder / "tokenizer_config.json", {{"padding_side", "left"}, {"truncation_side", "left"}});
  const Tokenizer t5 = open_tokenizer(folder.path());
  const EncodedText padded = t5.encode("", {.max_length = 3, .padding = Padding::kToMaxLength});
  EXPECT_THAT(padded.ids, ElementsAre(0, 0, 1));
  EXPECT_THAT(padded.attention_mask, ElementsAre(0, 0, 1));
  const std::vector<TokenId> whole = t5.encode("a red fox").ids;
  EXPECT_THAT(t5.encode("a red fox", {.max_length = 2}).ids, ElementsAre(whole[whole.size() - 2], 1));
}

TEST(Tokenizer, SaysWhatItKnowsOfItsVocabulary) {
  const Tokenizer clip = open_tokenizer(goldens() / "clip");
  EXPECT_EQ(clip.find("<|startoftext|>"), clip.special_tokens().begin);
  EXPECT_EQ(clip.piece(clip.vocabulary_size() - 1), "<|endoftext|>");
  EXPECT_EQ(clip.model_max_length(), 77U);
  EXPECT_EQ(clip.find("no such piece"), std::nullopt);
  EXPECT_THAT(error_of([&] { static_cast<void>(clip.piece(clip.vocabulary_size())); }),
              HasSubstr("no piece has the id"));
}

TEST(Tokenizer, RefusesWhatItCannotEncodeAsAsked) {
  const Tokenizer clip = open_tokenizer(goldens() / "clip");
  const auto error = [&](std::string_view text, const EncodeOptions& options) {
    return error_of([&] { static_cast<void>(clip.encode(text, options)); });
  };
  EXPECT_THAT(error("ab\xFFz", {}), HasSubstr("byte 2 of it is 0xff"));
  EXPECT_THAT(error("\xED\xA0\x80", {}), HasSubstr("not UTF-8"));  // half of a surrogate pair
  EXPECT_THAT(error("a", {.max_length = 1}), HasSubstr("2 are put around"));
  EXPECT_THAT(error("a red fox", {.max_length = 3, .truncate = false}), HasSubstr("at most 3"));
  EXPECT_THAT(error("a", {.padding = Padding::kToMaxLength}), HasSubstr("not given"));
}

TEST(Tokenizer, AFolderWithoutPaddingTokenCannotPad) {
  const TempFolder folder;
  std::filesystem::copy(goldens() / "qwen2/tokenizer.json", folder / "tokenizer.json");
  const Tokenizer tokenizer = open_tokenizer(folder.path());
  EXPECT_THAT(
      error_of([&] { static_cast<void>(tokenizer.encode("a", {.max_length = 4, .padding = Padding::kToMaxLength})); }),
      HasSubstr("no padding token"));
}

TEST(Tokenizer, APlainSpecialTokenIsFoundInTheText) {
  // OpenCLIP's folders pad with "!", which is then the padding token at any position.
  const TempFolder folder;
  for (const char* const name : {"vocab.json", "merges.txt"})
    std::filesystem::copy(goldens() / "clip" / name, folder / name);
  write_json(folder / "tokenizer_config.json", {{"tokenizer_class", "CLIPTokenizer"}});
  write_json(folder / "special_tokens_map.json", {{"pad_token", "!"}});
  const Tokenizer clip = open_tokenizer(folder.path());
  EXPECT_EQ(clip.special_tokens().padding, clip.find("!"));
  const std::vector<TokenId> ids = clip.encode("a!", {.add_special_tokens = false}).ids;
  EXPECT_THAT(ids, ElementsAre(clip.find("a</w>").value(), clip.find("!").value()));
}

TEST(Tokenizer, AFolderSaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_THAT(error_of([&] { static_cast<void>(open_tokenizer(folder / "nowhere")); }),
              HasSubstr("no tokenizer folder"));
  EXPECT_THAT(error_of([&] { static_cast<void>(open_tokenizer(folder.path())); }), HasSubstr("none of tokenizer.json"));
  write_json(folder / "vocab.json", json::object());
  write_file_atomically(folder / "merges.txt", "#version: 0.2\n");
  write_json(folder / "tokenizer_config.json", {{"tokenizer_class", "BartTokenizerFast"}});
  EXPECT_THAT(error_of([&] { static_cast<void>(open_tokenizer(folder.path())); }), HasSubstr("BartTokenizer is not"));
}

/// Strings of characters from all of Unicode, with a higher share of those that tokenizers treat specially.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kTelling = {" ",      "  ",         "\n",   "\u3000",       "\u2581",
                                                    "'ll",    "<|im_end|>", "</s>", "<extra_id_7>", "e\u0301",
                                                    "\u200d", "\U0001F469", "ab",   "the "};
  std::string text;
  const auto count = std::uniform_int_distribution<int>(0, 40)(random);
  for (int i = 0; i < count; ++i) {
    char32_t code = std::uniform_int_distribution<char32_t>(0, i % 3 == 0 ? 0x10FFFF : 0x24F)(random);
    if (code >= 0xD800 && code < 0xE000) code = U'x';
    if (i % 4 == 0)
      text += kTelling[random() % kTelling.size()];
    else
      append_utf8(text, code);
  }
  return text;
}

TEST(Tokenizer, BytesComeBackFromTheirPieces) {
  const Tokenizer qwen = open_tokenizer(goldens() / "qwen2");
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(random);
    std::string back;
    for (const TokenId id : qwen.encode(text).ids) {
      const std::string& piece = qwen.piece(id);
      back += piece.starts_with("<|") ? piece : alphabet_to_bytes(piece).value();
    }
    ASSERT_EQ(back, to_normal_form(text, NormalForm::kNfc));
  }
}

TEST(Tokenizer, AnyTextHasIdsOfTheVocabulary) {
  std::mt19937 random(2);
  for (const char* const name : {"clip", "t5"}) {
    const Tokenizer tokenizer = open_tokenizer(goldens() / name);
    for (int i = 0; i < 1000; ++i) {
      const EncodedText encoded =
          tokenizer.encode(random_text(random), {.max_length = 32, .padding = Padding::kToMaxLength});
      ASSERT_EQ(encoded.ids.size(), 32U);
      for (const TokenId id : encoded.ids) ASSERT_FALSE(tokenizer.piece(id).empty());
    }
  }
}

TEST(Tokenizer, AnyBytesAreEncodedOrRefused) {
  const Tokenizer t5 = open_tokenizer(goldens() / "t5");
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = random_text(random);
    if (!bytes.empty()) bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::string error = error_of([&] { static_cast<void>(t5.encode(bytes)); });
    if (error == "(no error)") continue;
    ++refused;
    ASSERT_THAT(error, HasSubstr("not UTF-8"));
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace headroom
