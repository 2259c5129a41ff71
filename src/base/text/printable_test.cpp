#include "base/text/printable.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/text/utf8.hpp"

namespace headroom {
namespace {

TEST(Printable, ShowsWhatWouldSteerATerminal) {
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(printable(std::string_view("a\0b\rc\x7f", 6)), "a\\x00b\\x0dc\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(printable("abc\xE2\x80\xAEgnp.exe"), "abc\\u202egnp.exe");
  EXPECT_EQ(printable("\xE2\x81\xA6"), "\\u2066");
}

TEST(Printable, ShowsBytesThatAreNoText) {
  EXPECT_EQ(printable("\x9b\x33\xff"), "\\x9b3\\xff");
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");
}

TEST(Printable, LeavesTextAlone) {
  const std::string text = "Größe 5 €\t日本 🙂 e\u0301\nnext line\n";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, ANameIsOneLine) { EXPECT_EQ(printable_name("one\ntwo\tö"), "one\\x0atwo\\x09ö"); }

TEST(Shortened, LeavesOutTheMiddle) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("", 3), "");
  EXPECT_EQ(shortened("abcdefghijklmnop", 11), "abcdef...op");
  EXPECT_EQ(shortened("abcdefghijklmnop", 3), "...");
}

/// For any position of the cuts and any length of characters.
TEST(Shortened, CutsNoCharacter) {
  const std::string text = "aö€🙂bö€🙂cö€🙂dö€🙂";
  for (std::size_t most = 3; most <= text.size(); ++most) {
    const std::string cut = shortened(text, most);
    EXPECT_LE(cut.size(), most);
    EXPECT_TRUE(is_utf8(cut)) << cut;
    EXPECT_EQ(cut == text, most == text.size());
  }
}

}  // namespace
}  // namespace headroom
