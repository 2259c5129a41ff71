// The individual steps of tokenizers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "text/added_tokens.hpp"
#include "text/byte_alphabet.hpp"
#include "text/charsmap.hpp"
#include "text/normalizer.hpp"
#include "text/piece_trie.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/readers/protobuf.hpp"
#include "text/readers/sentencepiece_model.hpp"
#include "text/split.hpp"
#include "text/unicode.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<std::string> texts(std::string_view text, const std::vector<Span>& spans) {
  std::vector<std::string> result;
  for (const Span& span : spans) result.emplace_back(span.of(text));
  return result;
}

std::vector<Span> find_all(const Regex& regex, std::string_view text) {
  TextBudget budget("test", text.size());
  return regex.find_all(text, budget);
}

std::string normalized(const Normalizer& normalizer, std::string text) {
  Section section{.text = std::move(text), .at_start = true};
  TextBudget budget("test", section.text.size());
  normalizer.apply(section, budget);
  return section.text;
}

std::vector<std::string> words(const PreTokenizer& pre_tokenizer, std::string text, bool at_start = true) {
  TextBudget budget("test", text.size());
  std::vector<Section> sections{{std::move(text), at_start}};
  pre_tokenizer.apply(sections, budget);
  std::vector<std::string> result;
  for (const Section& section : sections) result.push_back(section.text);
  return result;
}

TEST(Regex, WhiteSpaceIsUnicodes) {
  const Regex spaces(R"(\s+)", "test");
  const std::string text = "a\u0085\u00a0\u2029b\u180ec\u200bd";  // the last two are not white space
  EXPECT_THAT(texts(text, find_all(spaces, text)), ElementsAre("\u0085\u00a0\u2029"));
  const Regex rest(R"([^\s]+|\S)", "test");
  EXPECT_THAT(texts("a b", find_all(rest, "a b")), ElementsAre("a", "b"));
}

TEST(Regex, LooksAheadAndKnowsCategoriesAndCases) {
  const std::string text = "a   b Ⅷ3 'LL'ſ";
  EXPECT_THAT(texts(text, find_all(Regex(R"(\s+(?!\S))", "test"), text)), ElementsAre("  "));
  EXPECT_THAT(texts(text, find_all(Regex(R"(\p{N})", "test"), text)), ElementsAre("Ⅷ", "3"));
  EXPECT_THAT(texts(text, find_all(Regex(R"((?i:'s|'ll))", "test"), text)), ElementsAre("'LL", "'ſ"));
}

TEST(Regex, RefusesWhatItWouldReadOtherwise) {
  EXPECT_THAT(error_of([] { const Regex regex(R"(\w+)", "file: key"); }),
              HasSubstr("file: key: the regular expression"));
  EXPECT_THAT(error_of([] { const Regex regex("[a[b]]", "test"); }), HasSubstr("a set in a set"));
  EXPECT_THAT(error_of([] { const Regex regex("(a", "test"); }), HasSubstr("no regular expression"));
}

TEST(Regex, ALongRunIsOneMatch) {
  const std::string text(1'000'000, ' ');
  EXPECT_EQ(find_all(Regex(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", "test"), text).size(), 1U);
}

TEST(Split, EachBehaviorKeepsMatchesItsWay) {
  const std::string text = "the-final--countdown";
  const std::vector<Span> dashes = find_all(Regex::literal("-", "test"), text);
  const auto split = [&](SplitBehavior behavior) { return texts(text, split_at(text, dashes, behavior)); };
  EXPECT_THAT(split(SplitBehavior::kRemoved), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(split(SplitBehavior::kIsolated), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(split(SplitBehavior::kContiguous), ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(texts(text, split_at(text, dashes, SplitBehavior::kRemoved, true)), ElementsAre("-", "-", "-"));
}

TEST(Unicode, FormsAndCases) {
  EXPECT_EQ(to_normal_form("e\u0301\u1100\u1161", NormalForm::kNfc), "\u00e9\uac00");
  EXPECT_EQ(to_normal_form("\u00e9", NormalForm::kNfd), "e\u0301");
  EXPECT_EQ(to_normal_form("\ufb01\u2460", NormalForm::kNfkc), "fi1");
  EXPECT_EQ(to_lower_case("ΣΑΣ\u0130\u1e9eÉ"), "σασi\u0307ßé");
  EXPECT_EQ(to_normal_form(std::string("a\0b", 3), NormalForm::kNfc), std::string("a\0b", 3));
}

TEST(Unicode, GraphemesAndWhiteSpace) {
  EXPECT_EQ(first_grapheme("e\u0301\u0302x"), 5U);
  EXPECT_EQ(first_grapheme("\r\nx"), 2U);
  EXPECT_EQ(first_grapheme("\U0001F469\u200d\U0001F467x"), 11U);
  EXPECT_EQ(leading_white_space(" \u3000a "), 4U);
  EXPECT_EQ(trailing_white_space(" a\u3000 "), 4U);
}

TEST(PieceTrie, FindsEveryPrefixFromShortToLong) {
  const PieceTrie trie({{"ab", 0}, {"a", 1}, {"abcd", 2}, {"b", 3}, {"ab", 4}, {"", 5}});
  std::vector<std::pair<std::size_t, int>> found;
  trie.visit_prefixes("abcde", [&](std::size_t bytes, int value) { found.emplace_back(bytes, value); });
  EXPECT_THAT(found, ElementsAre(Pair(1, 1), Pair(2, 4), Pair(4, 2)));
  EXPECT_EQ(trie.longest_prefix("abc")->value, 4);
  EXPECT_FALSE(trie.longest_prefix("c").has_value());
  EXPECT_FALSE(PieceTrie().longest_prefix("c").has_value());
}

TEST(ByteAlphabet, EveryByteHasItsCharacter) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(bytes_to_alphabet(" \n!"), "\u0120\u010a!");
  EXPECT_EQ(alphabet_to_bytes(bytes_to_alphabet(bytes)), bytes);
  EXPECT_EQ(alphabet_to_bytes("a b"), std::nullopt);
}

TEST(AddedTokens, TheLongestAtTheLeftmostPlaceTakesTheSpacesItWants) {
  const AddedTokens tokens({{.content = "<a>", .id = 1},
                            {.content = "<a><b>", .id = 2},
                            {.content = "<c>", .id = 3, .strips_left = true, .strips_right = true}},
                           &AddedToken::content);
  const auto parts = [&](std::string_view text) {
    std::vector<std::pair<std::string, TokenId>> result;
    for (const auto& [span, token] : tokens.split(text)) result.emplace_back(span.of(text), token ? token->id : 0);
    return result;
  };
  EXPECT_THAT(parts("x<a><b> <a> \u3000<c>  y"), ElementsAre(Pair("x", 0), Pair("<a><b>", 2), Pair(" ", 0),
                                                             Pair("<a>", 1), Pair(" \u3000<c>  ", 3), Pair("y", 0)));
  EXPECT_THAT(parts(""), ElementsAre());
}

TEST(Normalizer, StepsFollowEachOther) {
  std::vector<NormalizerPtr> steps;
  steps.push_back(replace(Regex(R"(\s+)", "test"), "_"));
  steps.push_back(lower_case());
  steps.push_back(prepend(">"));
  EXPECT_EQ(normalized(*in_sequence(std::move(steps)), "A \n B"), ">a_b");
  EXPECT_EQ(normalized(*strip(true, false), " a "), "a ");
  EXPECT_EQ(normalized(*strip(false, true), " a "), " a");
  EXPECT_EQ(normalized(*prepend(">"), ""), "");
}

TEST(PreTokenizer, ByteLevelSplitsAsGpt2Does) {
  EXPECT_THAT(words(*byte_level({}), "I'll go  é1"), ElementsAre("I", "'ll", "\u0120go", "\u0120", "\u0120Ã©", "1"));
  EXPECT_THAT(words(*byte_level({.add_prefix_space = true, .split = false}), "a b"), ElementsAre("\u0120a\u0120b"));
}

TEST(PreTokenizer, MetaspaceMarksAsItsSchemeSays) {
  const std::string mark = "\u2581";
  EXPECT_THAT(words(*metaspace(mark, PrependScheme::kAlways, true), "a  b", false), ElementsAre("▁a", "▁", "▁b"));
  EXPECT_THAT(words(*metaspace(mark, PrependScheme::kFirst, true), "a b", false), ElementsAre("a", "▁b"));
  EXPECT_THAT(words(*metaspace(mark, PrependScheme::kFirst, false), "a b"), ElementsAre("▁a▁b"));
  EXPECT_THAT(words(*metaspace(mark, PrependScheme::kNever, true), "a b"), ElementsAre("a", "▁b"));
  EXPECT_THAT(words(*metaspace(mark, PrependScheme::kAlways, true), " a"), ElementsAre("▁a"));
  EXPECT_THAT(words(*split_white_space(), " a\n b "), ElementsAre("a", "b"));
}

TEST(Charsmap, AShortGraphemeIsReplacedWhole) {
  const auto path = source_dir(kSourceDir) / "tests/goldens/text/t5/spiece.model";
  const SentencepieceModel model = read_sentencepiece_model(path);
  // One grapheme, whose first character is in the map.
  EXPECT_EQ(normalized(*map_characters(Charsmap(model.charsmap, "test")), "\u1e9b\u0323"), "\u1e61");
}

TEST(Charsmap, RefusesWhatIsNoMap) {
  EXPECT_FALSE(Charsmap("", "test").shortest_prefix("a").has_value());
  EXPECT_THAT(error_of([] { const Charsmap map("abc", "test"); }), HasSubstr("not a character map"));
  EXPECT_THAT(error_of([] { const Charsmap map(std::string("\4\0\0\0\0\0\0\0", 8), "test"); }),
              HasSubstr("no replacements"));
  // A trie with invalid indices finds nothing.
  const Charsmap wild(std::string("\4\0\0\0\xFF\xFF\xFF\x7F\0", 9), "test");
  EXPECT_FALSE(wild.shortest_prefix("a").has_value());
}

TEST(Protobuf, ReadsFieldsOfEveryKind) {
  const std::string message("\x08\x96\x01\x12\x02hi\x1d\0\0\x80\x3f", 12);
  ProtobufReader reader(message, "test");
  EXPECT_EQ(reader.next()->value, 150U);
  EXPECT_EQ(reader.next()->bytes, "hi");
  EXPECT_EQ(reader.next()->as_float(), 1.0F);
  EXPECT_FALSE(reader.next().has_value());
  ProtobufReader cut(std::string_view(message).substr(0, 6), "a.model");
  static_cast<void>(cut.next());
  EXPECT_THAT(error_of([&] { static_cast<void>(cut.next()); }), HasSubstr("a.model is cut off: 1 bytes are missing"));
  ProtobufReader odd("\x0b", "a.model");
  EXPECT_THAT(error_of([&] { static_cast<void>(odd.next()); }), HasSubstr("of the type 3"));
}

}  // namespace
}  // namespace headroom
