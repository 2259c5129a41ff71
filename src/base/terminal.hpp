#pragma once

#include <cstddef>
#include <optional>

namespace headroom {

/// The width, in columns, of the terminal behind a file descriptor. Nothing where it is no terminal or does not tell.
[[nodiscard]] std::optional<std::size_t> terminal_columns(int descriptor);

/// The width, in columns, that text written to `descriptor` is laid out for: COLUMNS of the environment where that is a
/// whole number over zero, else terminal_columns(), else kDefaultColumns. At least kFewestColumns.
[[nodiscard]] std::size_t output_columns(int descriptor);

inline constexpr std::size_t kDefaultColumns = 120;
inline constexpr std::size_t kFewestColumns = 40;

}  // namespace headroom
