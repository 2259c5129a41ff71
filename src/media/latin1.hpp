#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// Converts UTF-8 to Latin-1 (ISO 8859-1, one byte per character); empty if it has characters beyond U+00FF.
[[nodiscard]] std::optional<std::string> latin1_from_utf8(std::string_view text);

/// Converts arbitrary bytes, interpreted as Latin-1, to UTF-8.
[[nodiscard]] std::string utf8_from_latin1(std::string_view bytes);

}  // namespace headroom
