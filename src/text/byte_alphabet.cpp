#include "text/byte_alphabet.hpp"

#include <array>

#include "base/text/utf8.hpp"
#include "text/unicode.hpp"

namespace headroom {
namespace {

constexpr char32_t kFirstMoved = 0x100;

struct Alphabet {
  std::array<char32_t, 256> character{};  // of a byte
  std::array<unsigned char, 512> byte{};  // of a character
  std::array<bool, 512> is_used{};
};

constexpr Alphabet kAlphabet = [] {
  Alphabet alphabet;
  char32_t moved = kFirstMoved;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    const char32_t character = is_printable ? byte : moved++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<unsigned char>(byte);
    alphabet.is_used[character] = true;
  }
  return alphabet;
}();

}  // namespace

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string result;
  result.reserve(2 * bytes.size());
  for (const char byte : bytes) append_utf8(result, kAlphabet.character[static_cast<unsigned char>(byte)]);
  return result;
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    if (character.code >= kAlphabet.is_used.size() || !kAlphabet.is_used[character.code]) return std::nullopt;
    result += static_cast<char>(kAlphabet.byte[character.code]);
    text.remove_prefix(character.bytes);
  }
  return result;
}

}  // namespace headroom
