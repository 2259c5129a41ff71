#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Shared by printing and parsing of graph text: the spelling of names, and the tokens.

namespace headroom::text_syntax {

/// Whether `c` may be part of a name without quotes: [A-Za-z0-9_.].
[[nodiscard]] bool is_bare(char c);
/// `text` in double quotes; \" \\ \n \t are escaped.
[[nodiscard]] std::string quoted(std::string_view text);
[[nodiscard]] std::string bare_or_quoted(std::string_view text);

enum class TokenKind : std::uint8_t {
  kWord,    ///< bare characters: a keyword, a name, a number with its sign and exponent
  kString,  ///< quoted, with escapes resolved in `text`
  kSymbol,  ///< one of % : = , ( ) [ ] { } @
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;
  int column = 1;  ///< in bytes, from 1
};

/// Splits graph text into tokens, with one token of lookahead. Errors name line and column.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  [[nodiscard]] const Token& peek() const noexcept { return token_; }
  Token take();

  [[nodiscard]] bool at_symbol(char symbol) const;
  [[nodiscard]] bool at_word(std::string_view word) const;
  /// Consumes the symbol if it comes next.
  bool accept(char symbol);
  bool accept_word(std::string_view word);
  void expect(char symbol);
  void expect_word(std::string_view word);
  /// Consumes a word or a string, as bare_or_quoted() writes it.
  Token expect_name(std::string_view what);
  Token expect_string(std::string_view what);
  std::int64_t expect_integer(std::string_view what);
  double expect_number(std::string_view what);

  /// Throws Error: "line 3, column 7: <message>".
  [[noreturn]] static void fail_at(const Token& token, std::string_view message);

 private:
  Token expect_word_token(std::string_view what);
  [[noreturn]] void fail_expected(std::string_view what) const;
  void advance();
  void step();
  void read_string();

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
  Token token_;
};

}  // namespace headroom::text_syntax
