#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom {

/// Parser for the argument of a switch, such as "0.08:warmup=2:run=5". Its errors name the switch.
class SwitchArgument {
 public:
  SwitchArgument(std::string_view switch_name, std::string_view text) : switch_(switch_name), text_(text) {}

  /// The text before the first colon.
  [[nodiscard]] std::string_view head() const { return text_.substr(0, text_.find(':')); }

  using Read = std::function<void(std::string_view value)>;
  /// Passes the value of each following `key=value` to the reader of that key. Throws a usage Error for other keys.
  void read_keys(const std::vector<std::pair<std::string, Read>>& readers) const;

  /// Parses a whole number in that range; throws a usage Error that names `what` for anything else.
  [[nodiscard]] std::int64_t whole(std::string_view what, std::string_view value, std::int64_t low,
                                   std::int64_t high) const;
  /// Parses a number; empty if invalid.
  [[nodiscard]] static std::optional<double> real(std::string_view text);

  /// Throws a usage Error.
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_usage("switch {}={}: {}", switch_, text_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string_view switch_;
  std::string_view text_;
};

}  // namespace headroom
