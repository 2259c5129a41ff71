// Tokenizer files that require unbounded work or memory: each is refused with a sentence that names the file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "text/charsmap.hpp"
#include "text/tokenizer.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

json replace_step(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
}
json split_step(const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}
json sequence(const char* key, const std::vector<json>& steps) { return {{"type", "Sequence"}, {key, steps}}; }
std::string times(std::size_t count, std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

class TokenizerBombs : public testing::Test {
 protected:
  /// The error or result of a tokenizer.json with `value` under `key`, applied to a text.
  std::string error(const char* key, const json& value, const std::string& text) {
    json file = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"</s>", 2}}}, {"merges", json::array()}}},
                 {"added_tokens", json::array()}};
    file[key] = value;
    write_json(folder_ / "tokenizer.json", file);
    return error_of([&] { static_cast<void>(open_tokenizer(folder_.path()).encode(text)); });
  }
  [[nodiscard]] std::string path() const { return folder_ / "tokenizer.json"; }

  TempFolder folder_;
};

TEST_F(TokenizerBombs, NormalizersThatMultiplyAText) {
  const std::string text = times(50, "a");
  const auto is_refused = AllOf(StartsWith(path() + ": its normalizer"), HasSubstr("a text of 50 bytes"));
  EXPECT_THAT(error("normalizer", sequence("normalizers", std::vector<json>(39, replace_step("a", "aa"))), text),
              is_refused);
  EXPECT_THAT(error("normalizer", replace_step("a", times(20'000, "b")), text), is_refused);
  const json prepend = {{"type", "Prepend"}, {"prepend", times(20'000, "b")}};
  EXPECT_THAT(error("normalizer", sequence("normalizers", std::vector<json>(30, prepend)), text), is_refused);
  // Few steps on a text that an earlier step made long.
  EXPECT_THAT(error("normalizer",
                    sequence("normalizers", {replace_step("a", times(5'000, "b")), replace_step("b", "bb")}), text),
              is_refused);
  const json metaspace = {{"type", "Metaspace"}, {"replacement", times(2'000, "b")}, {"prepend_scheme", "never"}};
  EXPECT_THAT(error("pre_tokenizer", metaspace, times(5'000, " ")), StartsWith(path() + ": its normalizer"));
  // The model takes more than linear time.
  EXPECT_THAT(error("normalizer", replace_step("a", times(40, "b")), times(5'000, "a")),
              StartsWith(path() + ": its normalizer"));
  EXPECT_EQ(error("normalizer", sequence("normalizers", std::vector<json>(8, replace_step("a", "aa"))), text),
            "(no error)");
}

TEST_F(TokenizerBombs, CombiningCharactersWithoutEnd) {
  const json marks = replace_step("a", times(200, "\u0301\u0323"));
  EXPECT_THAT(error("normalizer", sequence("normalizers", {marks, {{"type", "NFD"}}}), times(200, "a")),
              StartsWith(path() + ": its normalizer"));
  EXPECT_EQ(error("normalizer", {{"type", "NFC"}}, "e" + times(500, "\u0301\u0323")), "(no error)");
}

TEST_F(TokenizerBombs, RegularExpressionsThatBacktrackWithoutEnd) {
  const std::string text = times(60, "a") + "b";
  for (const char* const pattern :
       {"(a+)+$", "(a|a)*[cd]", "(?:a|aa)+[cd]", "(a*)*[cd]", "((a?)+)+[cd]", "(?=(a+)+[cd])b|a(?=(a|aa)+$)"})
    EXPECT_THAT(error("pre_tokenizer", split_step(pattern), text), StartsWith(path() + ": its normalizer")) << pattern;
  EXPECT_THAT(error("normalizer", replace_step("(a+)+$", ""), text), StartsWith(path() + ": its normalizer"));
  // Quadratic time: each match or failure scans to the end of the text.
  const std::string long_text = times(20'000, "ab");
  EXPECT_THAT(error("pre_tokenizer", split_step("[ab]+[cd]"), long_text), StartsWith(path() + ": its normalizer"));
  EXPECT_THAT(error("pre_tokenizer", split_step("a(?=[ab]*$)"), long_text), StartsWith(path() + ": its normalizer"));
  EXPECT_EQ(error("pre_tokenizer", split_step("a+|b+"), long_text), "(no error)");
}

TEST_F(TokenizerBombs, PatternsThatAreRefused) {
  const auto said = [&](const std::string& pattern) {
    return error("pre_tokenizer",
                 {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
                 "a");
  };
  const auto names_it = StartsWith(path() + ".pre_tokenizer.pattern: ");
  EXPECT_THAT(said("\\C"), AllOf(names_it, HasSubstr("holds \\C, which is not supported")));
  for (const char* const byte : {"\\xC3", "\\x80|a", "[\\xe9]", "\\303"})
    EXPECT_THAT(said(byte), AllOf(names_it, HasSubstr("holds a single byte of a character"))) << byte;
  for (const char* const fine :
       {"\\x41", "\\x{e9}", "\\x{2581}+", "[\\x{2581}]", "\\p{L}{1,3}", "a{255}", "\\x7f", "{", "\\{999}"})
    EXPECT_EQ(said(fine), "(no error)") << fine;
  for (const char* const many :
       {"a{256}", "a{1,65535}", "a{0,1000}", "a{99999999999999999999}", "(a{2}b){300,}", "\\p{L}{300}"})
    EXPECT_THAT(said(many), AllOf(names_it, HasSubstr("at most 255 are allowed"))) << many;
  EXPECT_THAT(said("a\\"), AllOf(names_it, HasSubstr("can be used")));
  EXPECT_THAT(said("a{,3}"), AllOf(names_it, HasSubstr("holds {,n}")));
  EXPECT_THAT(said("(*NO_JIT)a"), AllOf(names_it, HasSubstr("a callout or a verb")));
  EXPECT_THAT(said("a(?C1)b"), AllOf(names_it, HasSubstr("a callout or a verb")));
  EXPECT_THAT(said(times(2'049, "a")), AllOf(names_it, HasSubstr("has 2049 bytes, but at most 2048")));
  EXPECT_THAT(said("((((a{255}){255}){255}){255})"), AllOf(names_it, HasSubstr("can be used")));
  EXPECT_THAT(said("\n" + times(200, "é") + "("), AllOf(names_it, HasSubstr("...")));  // in one short line
  EXPECT_THAT(error("normalizer", sequence("normalizers", std::vector<json>(40, {{"type", "NFC"}})), "a"),
              AllOf(StartsWith(path() + ".normalizer"), HasSubstr("41 steps, but at most 40")));
  const json nested = sequence("pretokenizers", {sequence("pretokenizers", std::vector<json>(39, split_step("a")))});
  EXPECT_THAT(error("pre_tokenizer", nested, "a"), HasSubstr("41 steps"));
}

TEST_F(TokenizerBombs, IdsThatTheVocabularyDoesNotHave) {
  const auto around = [](int id) -> json {
    return {{"type", "RobertaProcessing"}, {"cls", {"a", 0}}, {"sep", {"</s>", id}}};
  };
  const auto with_template = [](const json& ids) -> json {
    return {{"type", "TemplateProcessing"},
            {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "S"}}}}}},
            {"special_tokens", {{"S", {{"id", "S"}, {"ids", ids}}}}}};
  };
  EXPECT_EQ(error("post_processor", around(2), "a"), "(no error)");
  EXPECT_EQ(error("post_processor", around(3), "a"),
            path() + " puts the id 3 around each text, but its vocabulary has no such id");
  EXPECT_THAT(error("post_processor", with_template({2, 1'000'000}), "a"), StartsWith(path() + " puts the id 1000000"));
  EXPECT_THAT(error("post_processor", with_template({2, 4'294'967'297}), "a"), StartsWith(path()));
  EXPECT_THAT(error("post_processor", with_template(json(std::vector<int>(257, 2))), "a"),
              AllOf(StartsWith(path()), HasSubstr("more than 256 ids")));
  EXPECT_THAT(error("post_processor", sequence("processors", std::vector<json>(300, around(2))), "a"),
              AllOf(StartsWith(path()), HasSubstr("at most 256 are allowed")));
}

TEST_F(TokenizerBombs, NumbersAndTokensOutOfAllProportion) {
  EXPECT_THAT(error("added_tokens", {{{"id", 1 << 21}, {"content", "<s>"}}}, "a"),
              AllOf(StartsWith(path()), EndsWith("an id was expected, below 2097152")));
  EXPECT_THAT(error("added_tokens", {{{"id", 3}, {"content", times(257, "a")}}}, "a"),
              AllOf(StartsWith(path() + ".added_tokens[0]"), HasSubstr("a token has 257 bytes, but at most 256")));
  json grows = {{"id", 3}, {"content", times(20, "a")}, {"normalized", true}};
  json file = {
      {"added_tokens", {grows}},
      {"normalizer", replace_step("a", times(20, "b"))},
      {"model",
       {{"type", "Unigram"}, {"vocab", json::array({json::array({"a", -1}), json::array({times(257, "b"), -1})})}}}};
  EXPECT_THAT(error("model", file["model"], "a"),
              AllOf(StartsWith(path() + ".model"), HasSubstr("a token has 257 bytes")));
  file["model"]["vocab"].erase(1);
  file["added_tokens"][0]["id"] = 1;
  write_json(path(), file);
  EXPECT_THAT(error_of([&] { static_cast<void>(open_tokenizer(folder_.path())); }),
              AllOf(StartsWith(path()), HasSubstr("a token has 400 bytes")));
  write_json(folder_ / "tokenizer_config.json", {{"extra_ids", 1'000'000'000'000}});
  EXPECT_THAT(error("normalizer", nullptr, "a"),
              HasSubstr("tokenizer_config.json.extra_ids is 1000000000000, but 0 to 10000"));
}

/// A character map that maps a string of one byte to `replacement`; with `is_whole` false, its trie is cyclic.
std::string map_of(unsigned char byte, std::string_view replacement, bool is_whole = true) {
  constexpr std::uint32_t kRoot = 256;
  std::vector<std::uint32_t> units(1024, 0xFFFFFFFFU);
  units[0] = kRoot << 10U;
  const std::uint32_t offset = is_whole ? 512U ^ 256U : byte;
  units[kRoot ^ byte] = byte | (is_whole ? 0x100U : 0U) | offset << 10U;
  if (is_whole) units[kRoot ^ byte ^ offset] = 0x80000000U;  // the replacement at 0
  const auto bytes = static_cast<std::uint32_t>(units.size() * sizeof(std::uint32_t));
  std::string map(sizeof bytes, '\0');
  std::memcpy(map.data(), &bytes, sizeof bytes);
  map.append(reinterpret_cast<const char*>(units.data()), bytes).append(replacement).push_back('\0');
  return map;
}

TEST(CharsmapBombs, MapsAreOfWholeCharactersAndShort) {
  EXPECT_EQ(Charsmap(map_of('a', "xyz"), "it").shortest_prefix("ab")->replacement, "xyz");
  const auto error = [](const std::string& map, const std::string& text) {
    return error_of([&] { static_cast<void>(Charsmap(map, "it").shortest_prefix(text)); });
  };
  EXPECT_EQ(error(map_of(0xC3, "x"), "\u00e9"), "it is not a character map: it maps single bytes of characters");
  EXPECT_EQ(error(map_of('a', "\xC3"), "a"), "it is not a character map: its replacements are not UTF-8");
  EXPECT_EQ(error(map_of('a', "x", false), times(1'000, "a")),
            "it is not a character map: it has strings of more than 64 bytes");
  EXPECT_EQ(error(map_of('a', "x", false), times(64, "a")), "(no error)");
}

}  // namespace
}  // namespace headroom
