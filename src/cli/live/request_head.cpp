#include "cli/live/request_head.hpp"

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_token_character(char c) {
  return is_digit(c) || is_letter(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_visible(char c) { return c > ' ' && c < '\x7F'; }
/// Characters of a value: also blanks, and bytes of other alphabets.
bool is_text(char c) { return is_visible(c) || c == ' ' || c == '\t' || static_cast<unsigned char>(c) >= 0x80; }

bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_character); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

/// "GET /status?now HTTP/1.1"
bool read_request_line(std::string_view line, RequestHead& head) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return false;
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return false;
  if (!is_token(method) || target.empty() || !std::ranges::all_of(target, is_visible)) return false;
  head.method = method;
  head.path = target.substr(0, target.find('?'));
  return true;
}

/// "Host: 127.0.0.1:8080"
bool read_field(std::string_view line, RequestHead& head) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return false;
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!std::ranges::all_of(value, is_text)) return false;
  head.header_fields.emplace(lower_case(line.substr(0, colon)), value);
  return true;
}

}  // namespace

std::optional<RequestHead> parse_request_head(std::string_view head) {
  RequestHead parsed;
  for (bool is_first = true; !head.empty(); is_first = false) {
    const std::size_t end = head.find(kLineEnd);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + kLineEnd.size());
    if (!(is_first ? read_request_line(line, parsed) : read_field(line, parsed))) return std::nullopt;
  }
  if (parsed.method.empty()) return std::nullopt;
  return parsed;
}

}  // namespace headroom
