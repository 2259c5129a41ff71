#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace headroom {

/// Writes results, at once and through to the system: to standard output, or where that belongs to other programs to
/// standard error. What could steer a terminal is shown as escapes (printable()). Throws Error where it cannot be
/// written.
void write_output(int descriptor, std::string_view text);

/// Formats, and writes to standard output.
template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  write_output(STDOUT_FILENO, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace headroom
