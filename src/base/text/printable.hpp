#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headroom {

/// Text as a terminal may get it: what would steer it (is_control()) and what is no UTF-8 is shown as escapes, "\x1b"
/// for a byte and "\u202e" for a character. Lines and tabs stay.
[[nodiscard]] std::string printable(std::string_view text);

/// The same for a name, which is one line.
[[nodiscard]] std::string printable_name(std::string_view name);

/// Well-formed text of at most `most_bytes`: the middle of a longer one is left out, between whole characters, and "..."
/// is there instead.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most_bytes);

}  // namespace headroom
