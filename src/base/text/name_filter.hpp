#pragma once

#include <regex.h>

#include <span>
#include <string>
#include <string_view>

namespace headroom {

/// Filters names by a regular expression (POSIX, extended).
class NameFilter {
 public:
  /// Throws a usage Error for an invalid pattern.
  explicit NameFilter(const std::string& pattern);
  ~NameFilter() { regfree(&compiled_); }
  NameFilter(const NameFilter&) = delete;
  NameFilter& operator=(const NameFilter&) = delete;

  /// Whether the expression matches somewhere in `name`.
  [[nodiscard]] bool takes(const std::string& name) const;
  /// Whether it matches `name` from its first byte to its last.
  [[nodiscard]] bool takes_whole(const std::string& name) const;
  /// Throws a usage Error if it matches none of `names`, and suggests similar ones; `what` describes the names
  /// ("kernel benchmark").
  void check_takes_any(std::span<const std::string> names, std::string_view what) const;

 private:
  std::string pattern_;
  regex_t compiled_{};
};

}  // namespace headroom
