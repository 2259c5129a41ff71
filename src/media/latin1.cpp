#include "media/latin1.hpp"

#include "base/error.hpp"
#include "base/text/utf8.hpp"

namespace headroom {

std::optional<std::string> latin1_from_utf8(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    HR_CHECK(character.is_valid);
    if (character.code > 0xFF) return std::nullopt;
    bytes.push_back(static_cast<char>(character.code));
    text.remove_prefix(character.bytes);
  }
  return bytes;
}

std::string utf8_from_latin1(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x80) {
      text.push_back(byte);
    } else {
      text.push_back(static_cast<char>(0xC0 | code >> 6));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
  }
  return text;
}

}  // namespace headroom
