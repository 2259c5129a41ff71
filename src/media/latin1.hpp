#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// UTF-8 in Latin-1 (ISO 8859-1, a byte a character); nothing where it has characters beyond U+00FF.
[[nodiscard]] std::optional<std::string> latin1_from_utf8(std::string_view text);

/// Any bytes, taken as Latin-1, in UTF-8.
[[nodiscard]] std::string utf8_from_latin1(std::string_view bytes);

}  // namespace headroom
