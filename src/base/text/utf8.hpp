#pragma once

#include <cstddef>
#include <string_view>

/// Text from outside: a name may hold any bytes.
namespace headroom {

/// What stands at the front of a text.
struct Utf8Character {
  char32_t code = U'\uFFFD';  ///< of a byte that begins no well-formed sequence this replacement character
  std::size_t bytes = 1;      ///< of the sequence; 1 where there is none
  bool is_valid = false;
};
/// The first character of `text`, which must not be empty (Unicode Standard, table 3-7: well-formed sequences alone).
[[nodiscard]] Utf8Character first_character(std::string_view text);

/// The text behind the byte order mark that some programs put in front of UTF-8.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text);

/// Whether all of `text` is well-formed; true of an empty one.
[[nodiscard]] bool is_utf8(std::string_view text);

/// Whether a character steers what shows text rather than being shown: controls of ASCII and Latin-1 (ECMA-48), line
/// separators, and what turns the direction of text (UAX 9).
[[nodiscard]] bool is_control(char32_t code);

}  // namespace headroom
