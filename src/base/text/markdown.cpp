#include "base/text/markdown.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text/printable.hpp"

namespace headroom {
namespace {

bool is_alphanumeric(char c) {
  // Bytes of non-ASCII characters count: an underscore between letters of any script is not emphasis.
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// Whether the character at `at` may be markup. A backslash is either from printable_name() or from the text.
bool may_be_markup(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (std::string_view("\\`*[]<>&|~$!@#").find(c) != std::string_view::npos) return true;
  const std::string_view rest = text.substr(at);
  if (c == '_')
    return at == 0 || at + 1 == text.size() || !is_alphanumeric(text[at - 1]) || !is_alphanumeric(text[at + 1]);
  if (c == ':') return rest.starts_with("://");  // an address becomes a link by itself
  if (c == '.') {
    if (at >= 3 && (text.substr(at - 3, 3) == "www" || text.substr(at - 3, 3) == "WWW")) return true;
    return at > 0 && std::ranges::all_of(text.substr(0, at), [](char d) { return d >= '0' && d <= '9'; });
  }
  if (c == ')') return at > 0 && std::ranges::all_of(text.substr(0, at), [](char d) { return d >= '0' && d <= '9'; });
  return at == 0 && (c == '-' || c == '+' || c == '=');  // a list or a heading
}

}  // namespace

std::string markdown_text(std::string_view text) {
  std::string shown = printable_name(text);
  const std::size_t first = std::min(shown.find_first_not_of(' '), shown.size());  // an indented line is code
  shown.erase(0, first);
  std::string out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (may_be_markup(shown, i)) out += '\\';
    out += shown[i];
  }
  return out;
}

}  // namespace headroom
