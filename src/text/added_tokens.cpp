#include "text/added_tokens.hpp"

#include <algorithm>

#include "text/unicode.hpp"

namespace headroom {
namespace {

PieceTrie trie_of(const std::vector<AddedToken>& tokens, const AddedTokens::Form& form) {
  std::vector<PieceTrie::Entry> entries;
  for (std::size_t i = 0; i < tokens.size(); ++i) entries.push_back({form(tokens[i]), static_cast<std::int32_t>(i)});
  return PieceTrie(std::move(entries));
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Form& form)
    : tokens_(tokens), trie_(trie_of(tokens, form)) {}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  const auto append = [&](Span span, const AddedToken* token) {
    if (span.begin < span.end) parts.push_back({span, token});
    done = std::max(done, span.end);
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto match = trie_.longest_prefix(text.substr(at));
    if (!match) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(match->value)];
    Span span{.begin = at, .end = at + match->bytes};
    if (token.strips_left) span.begin -= trailing_white_space(text.substr(done, at - done));
    if (token.strips_right) span.end += leading_white_space(text.substr(span.end));
    append({.begin = done, .end = span.begin}, nullptr);
    append(span, &token);
    at = span.end;
  }
  append({.begin = done, .end = text.size()}, nullptr);
  return parts;
}

}  // namespace headroom
