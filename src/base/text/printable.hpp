#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headroom {

/// Text that is safe on a terminal: control characters (is_control()) and invalid UTF-8 are shown as escapes,
/// "\x1b" for a byte and "\u202e" for a character. Line feeds and tabs are kept.
[[nodiscard]] std::string printable(std::string_view text);

/// The same for a name, which must be a single line.
[[nodiscard]] std::string printable_name(std::string_view name);

/// Text for JSON, which must be UTF-8 and has escapes of its own for control characters: invalid bytes alone are shown
/// as escapes, "\xff".
[[nodiscard]] std::string well_formed(std::string_view text);

/// Shortens well-formed text to at most `most_bytes`: the middle of a longer text is replaced by "...", without
/// cutting characters.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most_bytes);

}  // namespace headroom
