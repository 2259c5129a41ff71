#include "text/unicode.hpp"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

utf8proc_option_t options_of(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    case NormalForm::kNfd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case NormalForm::kNfkc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case NormalForm::kNfkd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  fail("unknown normalization form {}", static_cast<int>(form));
}

}  // namespace

void check_utf8(std::string_view text, std::string_view what) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = first_character(text.substr(at));
    if (!character.is_valid)
      fail("{} is not UTF-8: byte {} of it is 0x{:02x}, which begins no character", what, at,
           static_cast<unsigned char>(text[at]));
    at += character.bytes;
  }
}

void append_utf8(std::string& text, char32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

std::string to_normal_form(std::string_view text, NormalForm form) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(mapped, &std::free);
  if (size < 0) fail("cannot normalize a text of {} bytes: {}", text.size(), utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)};
}

std::uint64_t cost_of_reordering(std::string_view text) {
  constexpr std::uint64_t kPerStep = 16;  // swaps of neighbours per unit of other work
  std::uint64_t cost = 0;
  std::uint64_t together = 0;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const bool combines = utf8proc_get_property(static_cast<utf8proc_int32_t>(character.code))->combining_class != 0;
    if (!combines) {
      cost += together * together / kPerStep;
      together = 0;
    }
    together += combines ? 1 : 0;
    text.remove_prefix(character.bytes);
  }
  return cost + together * together / kPerStep;
}

std::string to_lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    // The only character whose context-free lower case is two characters (SpecialCasing.txt).
    if (character.code == U'\u0130')
      result += "i\u0307";
    else
      append_utf8(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code))));
    text.remove_prefix(character.bytes);
  }
  return result;
}

bool is_white_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

std::size_t leading_white_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Character character = first_character(text.substr(at));
    if (!is_white_space(character.code)) break;
    at += character.bytes;
  }
  return at;
}

std::size_t trailing_white_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
    if (!is_white_space(first_character(text.substr(begin, end - begin)).code)) break;
    end = begin;
  }
  return text.size() - end;
}

std::size_t first_grapheme(std::string_view text) {
  Utf8Character character = first_character(text);
  std::size_t at = character.bytes;
  utf8proc_int32_t state = 0;
  while (at < text.size()) {
    const Utf8Character next = first_character(text.substr(at));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(character.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state))
      break;
    at += next.bytes;
    character = next;
  }
  return at;
}

}  // namespace headroom
