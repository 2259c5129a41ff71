#pragma once

#include <regex.h>

#include <span>
#include <string>
#include <string_view>

namespace headroom {

/// Takes the names that match a regular expression (POSIX, extended) somewhere.
class NameFilter {
 public:
  /// Throws a usage Error for a pattern that is none.
  explicit NameFilter(const std::string& pattern);
  ~NameFilter() { regfree(&compiled_); }
  NameFilter(const NameFilter&) = delete;
  NameFilter& operator=(const NameFilter&) = delete;

  [[nodiscard]] bool takes(const std::string& name) const;
  /// Throws a usage Error where it takes none of `names`, with those that it may have meant; `what` says what they are
  /// names of ("kernel benchmark").
  void check_takes_any(std::span<const std::string> names, std::string_view what) const;

 private:
  std::string pattern_;
  regex_t compiled_{};
};

}  // namespace headroom
