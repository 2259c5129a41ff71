#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// GPT-2's alphabet: a printable character for each byte, so that vocabularies of bytes are texts. Bytes that are
/// printable in Latin-1 represent themselves; the others are U+0100 and following, in order.
[[nodiscard]] std::string bytes_to_alphabet(std::string_view bytes);
/// Empty if `text` has a character outside the alphabet.
[[nodiscard]] std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace headroom
