#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace headroom {

/// Messages for the user at the terminal; results never go through it. `main` creates it from --quiet and passes it
/// on. A message is one line: control characters, including line feeds, are shown as escapes (printable_name()). A
/// progress bar on the terminal's line is cleared first.
class Log {
 public:
  explicit Log(bool quiet = false, int descriptor = STDERR_FILENO) : quiet_(quiet), descriptor_(descriptor) {}

  /// Prints one line, unless quiet.
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (!quiet_) print("", fmt::format(format, std::forward<Args>(args)...));
  }
  /// Prints one line that begins with "warning: ", even if quiet.
  template <typename... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    print("warning: ", fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] bool quiet() const noexcept { return quiet_; }

 private:
  void print(std::string_view prefix, std::string_view message) const;

  bool quiet_;
  int descriptor_;
};

}  // namespace headroom
