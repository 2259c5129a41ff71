#include "ir/text/text_syntax.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.hpp"

namespace headroom::text_syntax {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string bare_or_quoted(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_bare) ? std::string(text) : quoted(text);
}

void Lexer::fail_at(const Token& token, std::string_view message) {
  fail("line {}, column {}: {}", token.line, token.column, message);
}

void Lexer::fail_expected(std::string_view what) const {
  const std::string found = token_.kind == TokenKind::kEnd ? "the end of the text" : quoted(token_.text);
  fail_at(token_, fmt::format("expected {}, but found {}", what, found));
}

Token Lexer::take() {
  Token token = std::move(token_);
  advance();
  return token;
}

bool Lexer::at_symbol(char symbol) const { return token_.kind == TokenKind::kSymbol && token_.text[0] == symbol; }
bool Lexer::at_word(std::string_view word) const { return token_.kind == TokenKind::kWord && token_.text == word; }

bool Lexer::accept(char symbol) {
  if (!at_symbol(symbol)) return false;
  advance();
  return true;
}

bool Lexer::accept_word(std::string_view word) {
  if (!at_word(word)) return false;
  advance();
  return true;
}

void Lexer::expect(char symbol) {
  if (!accept(symbol)) fail_expected(fmt::format("\"{}\"", symbol));
}

void Lexer::expect_word(std::string_view word) {
  if (!accept_word(word)) fail_expected(fmt::format("\"{}\"", word));
}

Token Lexer::expect_word_token(std::string_view what) {
  if (token_.kind != TokenKind::kWord) fail_expected(what);
  return take();
}

Token Lexer::expect_name(std::string_view what) {
  return token_.kind == TokenKind::kString ? take() : expect_word_token(what);
}

Token Lexer::expect_string(std::string_view what) {
  if (token_.kind != TokenKind::kString) fail_expected(what);
  return take();
}

namespace {

template <typename T>
T parse_number(const Token& token, std::string_view what) {
  T value{};
  const char* first = token.text.data();
  const char* last = first + token.text.size();
  const auto [end, error] = std::from_chars(first, last, value);
  if (error != std::errc{} || end != last) {
    Lexer::fail_at(token, fmt::format("expected {}, but found \"{}\"", what, token.text));
  }
  return value;
}

}  // namespace

std::int64_t Lexer::expect_integer(std::string_view what) {
  return parse_number<std::int64_t>(expect_word_token(what), what);
}
double Lexer::expect_number(std::string_view what) { return parse_number<double>(expect_word_token(what), what); }

void Lexer::step() {
  if (text_[at_] == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
  ++at_;
}

void Lexer::advance() {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  const auto is_word = [](char c) { return is_bare(c) || c == '-' || c == '+'; };
  while (at_ < text_.size() && is_space(text_[at_])) step();
  token_ = Token{TokenKind::kEnd, {}, line_, column_};
  if (at_ == text_.size()) return;
  const char c = text_[at_];
  if (c == '"') return read_string();
  if (is_word(c)) {
    token_.kind = TokenKind::kWord;
    while (at_ < text_.size() && is_word(text_[at_])) {
      token_.text += text_[at_];
      step();
    }
    return;
  }
  token_.text = c;
  if (std::string_view("%:=,()[]{}@").find(c) == std::string_view::npos) {
    fail_at(token_, fmt::format("{} does not belong in a graph", quoted(token_.text)));
  }
  token_.kind = TokenKind::kSymbol;
  step();
}

void Lexer::read_string() {
  token_.kind = TokenKind::kString;
  for (step(); at_ < text_.size() && text_[at_] != '"'; step()) {
    char c = text_[at_];
    if (c == '\\' && at_ + 1 < text_.size()) {
      step();
      constexpr std::string_view kEscapes = "\"\\nt";
      constexpr std::string_view kMeanings = "\"\\\n\t";
      const std::size_t escape = kEscapes.find(text_[at_]);
      if (escape == std::string_view::npos) {
        fail_at(Token{TokenKind::kString, {}, line_, column_}, fmt::format("\\{} is not an escape", text_[at_]));
      }
      c = kMeanings[escape];
    }
    token_.text += c;
  }
  if (at_ == text_.size()) fail_at(token_, "the string that starts here has no end");
  step();
}

}  // namespace headroom::text_syntax
