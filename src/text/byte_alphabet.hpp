#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// GPT-2's alphabet: a printable character for each byte, so that vocabularies over bytes are texts. Bytes that are
/// printable in Latin-1 are themselves; the others are U+0100 and what follows it, in order.
[[nodiscard]] std::string bytes_to_alphabet(std::string_view bytes);
/// Nothing where `text` holds a character that is not of the alphabet.
[[nodiscard]] std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace headroom
