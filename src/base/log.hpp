#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace headroom {

/// Messages for the person at the terminal. `main` makes one from --quiet and hands it to whoever has something to say;
/// results never go through it. A message is one line: control characters in it, line feeds among them, are shown as
/// escapes (printable_name()). A line that a progress bar holds on the terminal is cleared first.
class Log {
 public:
  explicit Log(bool quiet = false, int descriptor = STDERR_FILENO) : quiet_(quiet), descriptor_(descriptor) {}

  /// One line; nothing where quiet.
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (!quiet_) print("", fmt::format(format, std::forward<Args>(args)...));
  }
  /// One line beginning "warning: ", also where quiet.
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
