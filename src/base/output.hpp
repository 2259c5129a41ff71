#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace headroom {

/// Writes results unbuffered, to standard output, or to standard error if standard output carries other data.
/// Characters that could control a terminal are shown as escapes (printable()). Throws Error if writing fails.
void write_output(int descriptor, std::string_view text);

/// Formats and writes to standard output.
template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  write_output(STDOUT_FILENO, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace headroom
