#pragma once

#include <cstddef>
#include <string_view>

/// UTF-8 of untrusted text: a name may contain any bytes.
namespace headroom {

/// The first character of a text.
struct Utf8Character {
  char32_t code = U'\uFFFD';  ///< the replacement character for a byte that begins no well-formed sequence
  std::size_t bytes = 1;      ///< of the sequence; 1 if it is malformed
  bool is_valid = false;
};
/// The first character of `text`, which must not be empty (Unicode Standard, table 3-7: only well-formed
/// sequences).
[[nodiscard]] Utf8Character first_character(std::string_view text);

/// The text after the byte order mark that some programs write before UTF-8.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text);

/// Whether all of `text` is well-formed; true for an empty text.
[[nodiscard]] bool is_utf8(std::string_view text);

/// Whether a character controls the display instead of being shown: controls of ASCII and Latin-1 (ECMA-48), line
/// separators, and directional formatting (UAX 9).
[[nodiscard]] bool is_control(char32_t code);

}  // namespace headroom
