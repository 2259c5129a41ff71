#include "base/text/utf8.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

/// The number of bytes after a lead byte, and the range of the first of them. Excludes overlong forms, surrogates,
/// and codes beyond U+10FFFF.
struct Tail {
  std::size_t bytes;
  unsigned low;
  unsigned high;
};
Tail tail_of(unsigned lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {1, 0x80, 0xBF};
  if (lead >= 0xE0 && lead <= 0xEF) return {2, lead == 0xE0 ? 0xA0U : 0x80U, lead == 0xED ? 0x9FU : 0xBFU};
  if (lead >= 0xF0 && lead <= 0xF4) return {3, lead == 0xF0 ? 0x90U : 0x80U, lead == 0xF4 ? 0x8FU : 0xBFU};
  return {0, 0, 0};
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  HR_CHECK(!text.empty());
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {.code = lead, .bytes = 1, .is_valid = true};
  const Tail tail = tail_of(lead);
  if (tail.bytes == 0 || text.size() <= tail.bytes || byte(1) < tail.low || byte(1) > tail.high) return {};
  char32_t code = lead & (0x3FU >> tail.bytes);
  for (std::size_t i = 1; i <= tail.bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  return {.code = code, .bytes = tail.bytes + 1, .is_valid = true};
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    if (!character.is_valid) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

}  // namespace headroom
