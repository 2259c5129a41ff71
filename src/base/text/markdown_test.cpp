#include "base/text/markdown.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(MarkdownText, LeavesPlainTextAlone) {
  for (const char* plain :
       {"time per step: flux, 1.5x (bf16+fp8)", "bench/results/ladder_under_load.json", "größer – 10%", ""})
    EXPECT_EQ(markdown_text(plain), plain);
}

TEST(MarkdownText, LeavesNoMarkup) {
  EXPECT_EQ(markdown_text("<img src=x onerror=y>"), "\\<img src=x onerror=y\\>");
  EXPECT_EQ(markdown_text("![a](http://b)"), "\\!\\[a\\](http\\://b)");
  EXPECT_EQ(markdown_text("www.example.org, a@b"), "www\\.example.org, a\\@b");
  EXPECT_EQ(markdown_text("*a* _b_ `c` ~~d~~ $e$"), "\\*a\\* \\_b\\_ \\`c\\` \\~\\~d\\~\\~ \\$e\\$");
  EXPECT_EQ(markdown_text("a|b &lt; \\"), "a\\|b \\&lt; \\\\");
}

TEST(MarkdownText, BeginsNothing) {
  EXPECT_EQ(markdown_text("# a"), "\\# a");
  EXPECT_EQ(markdown_text("- a"), "\\- a");
  EXPECT_EQ(markdown_text("12. a"), "12\\. a");
  EXPECT_EQ(markdown_text("1) a"), "1\\) a");
  EXPECT_EQ(markdown_text("    code"), "code");
}

TEST(MarkdownText, IsOneLine) {
  EXPECT_EQ(markdown_text("a\n# b\r\x1b[2J"), "a\\\\x0a\\# b\\\\x0d\\\\x1b\\[2J");
  EXPECT_EQ(markdown_text("a\xE2\x80\xAE"), "a\\\\u202e");
}

}  // namespace
}  // namespace headroom
