#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string_view>

namespace headroom {

/// The width, in columns, of the terminal at a file descriptor. Empty if it is not a terminal or the width is
/// unknown.
[[nodiscard]] std::optional<std::size_t> terminal_columns(int descriptor);

/// The layout width, in columns, of text written to `descriptor`: the environment variable COLUMNS if it is a
/// positive whole number, else terminal_columns(), else kDefaultColumns. At least kFewestColumns.
[[nodiscard]] std::size_t output_columns(int descriptor);

inline constexpr std::size_t kDefaultColumns = 120;
inline constexpr std::size_t kFewestColumns = 40;

/// Whether the terminal's line holds a progress bar. Whoever prints next erases the bar first and clears this.
inline std::atomic<bool> bar_on_line = false;

inline constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace headroom
