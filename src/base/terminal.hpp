#pragma once

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

}  // namespace headroom
