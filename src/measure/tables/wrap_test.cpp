#include "measure/tables/wrap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace headroom {
namespace {

using testing::ElementsAre;

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("\u00e9t\u00e9"), 3U);  // precomposed accents
  EXPECT_EQ(display_width("e\u0301"), 1U);        // combining accent
  EXPECT_EQ(display_width("\u901f\u5ea6"), 4U);   // two ideographs
  EXPECT_EQ(display_width("\U0001F680"), 2U);     // an emoji
  EXPECT_EQ(display_width("\u2192\u00d7"), 2U);   // arrow and multiplication sign
}

TEST(DisplayWidth, CountsBrokenBytesOneByOne) {
  EXPECT_EQ(display_width("\xff"), 1U);
  EXPECT_EQ(display_width("\xe2\x82"), 2U);  // a sequence cut short
  EXPECT_EQ(display_width("\xc3(x"), 3U);
}

TEST(WrapLine, BreaksAtBlanks) {
  EXPECT_THAT(wrap_line("one two three", {.width = 7}), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap_line("one two three", {.width = 7, .indent = 2}), ElementsAre("one two", "  three"));
  EXPECT_THAT(wrap_line("  one two", {.width = 6}), ElementsAre("  one", "two"));
  EXPECT_THAT(wrap_line("one", {.width = 3}), ElementsAre("one"));
  EXPECT_THAT(wrap_line("", {.width = 3}), ElementsAre(""));
}

TEST(WrapLine, BreaksBehindSeparatorsWhereAWordIsTooLong) {
  EXPECT_THAT(wrap_line("arena+flash+fuse", {.width = 12, .indent = 2}), ElementsAre("arena+flash+", "  fuse"));
  EXPECT_THAT(wrap_line("an arena+flash", {.width = 12}), ElementsAre("an", "arena+flash"))
      << "the word fits in a line";
}

TEST(WrapLine, BreaksWordsWhereThatIsAllowed) {
  EXPECT_THAT(wrap_line("abcdefgh", {.width = 3}), ElementsAre("abcdefgh"));
  EXPECT_THAT(wrap_line("abcdefgh", {.width = 3, .breaks_words = true}), ElementsAre("abc", "def", "gh"));
  EXPECT_THAT(wrap_line("\u901f\u5ea6\u901f", {.width = 5, .breaks_words = true}),
              ElementsAre("\u901f\u5ea6", "\u901f"));
}

TEST(WrapLine, RefusesAnIndentOfTheWholeWidth) {
  EXPECT_THROW(static_cast<void>(wrap_line("a", {.width = 2, .indent = 2})), std::logic_error);
}

TEST(WrapText, IndentsWhatALineGoesOnIn) {
  EXPECT_EQ(wrap_text("unsettled:\n  fuse: only one\n\nend", 12), "unsettled:\n  fuse: only\n    one\n\nend\n");
  EXPECT_EQ(wrap_text("short\n", 80), "short\n");
  EXPECT_EQ(wrap_text("", 80), "");
}

}  // namespace
}  // namespace headroom
