#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

namespace headroom {

/// The width, in columns, of the terminal at a file descriptor. Empty if it is not a terminal or the width is
/// unknown.
[[nodiscard]] std::optional<std::size_t> terminal_columns(int descriptor);

/// The layout width, in columns, of text written to `descriptor`: the environment variable COLUMNS if it is a
/// positive whole number, else terminal_columns(), else kDefaultColumns. At least kFewestColumns.
[[nodiscard]] std::size_t output_columns(int descriptor);

inline constexpr std::size_t kDefaultColumns = 120;
inline constexpr std::size_t kFewestColumns = 40;

/// The descriptor of the terminal that shows a progress bar, or kNoBar.
inline constexpr int kNoBar = -1;
inline std::atomic<int> bar_descriptor = kNoBar;

/// Erases the progress bar, if there is one. Whatever is printed erases it first.
void erase_bar();

}  // namespace headroom
