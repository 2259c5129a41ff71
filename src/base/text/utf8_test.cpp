#include "base/text/utf8.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

namespace headroom {
namespace {

TEST(Utf8, ReadsEachLength) {
  const auto expect = [](std::string_view text, char32_t code) {
    const Utf8Character first = first_character(std::string(text) + "x");
    EXPECT_TRUE(first.is_valid) << text;
    EXPECT_EQ(first.code, code) << text;
    EXPECT_EQ(first.bytes, text.size()) << text;
  };
  expect("a", U'a');
  expect("\x7F", 0x7F);
  expect("\xC2\x80", 0x80);
  expect("é", U'é');
  expect("€", U'€');
  expect("\xED\x9F\xBF", 0xD7FF);
  expect("\xF0\x90\x80\x80", 0x10000);
  expect("\xF4\x8F\xBF\xBF", 0x10FFFF);
}

TEST(Utf8, TakesAByteThatBeginsNothingByItself) {
  for (const char* text :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xE2\x82", "\xE2\x82(",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    const Utf8Character first = first_character(text);
    EXPECT_FALSE(first.is_valid) << text;
    EXPECT_EQ(first.code, U'\uFFFD') << text;
    EXPECT_EQ(first.bytes, 1U) << text;
  }
}

TEST(Utf8, KnowsATextFromOtherBytes) {
  for (const char* text : {"", "a", "pâte à €5", "\xF0\x9F\x98\x80"}) EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"\xE9", "caf\xE9", "€\xE2\x82", "\xED\xA0\x80"}) EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(Utf8, AByteOrderMarkIsNoPartOfAText) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF"
                                    "fox"),
            "fox");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF"), "");
  for (const char* text : {"", "fox", "\xEF\xBB", "f\xEF\xBB\xBF"}) EXPECT_EQ(without_byte_order_mark(text), text);
}

TEST(Utf8, KnowsWhatSteersATerminal) {
  for (const char32_t code : {0x00, 0x0A, 0x1B, 0x7F, 0x80, 0x9B, 0x9F, 0x2028, 0x202E, 0x2066, 0x2069})
    EXPECT_TRUE(is_control(code)) << static_cast<unsigned>(code);
  for (const char32_t code : {0x20, 0x7E, 0xA0, 0xE9, 0x2027, 0x202F, 0x2065, 0x206A, 0x1F600})
    EXPECT_FALSE(is_control(code)) << static_cast<unsigned>(code);
}

}  // namespace
}  // namespace headroom
