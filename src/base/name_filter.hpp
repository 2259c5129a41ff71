#pragma once

#include <regex.h>

#include <string>

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

 private:
  regex_t compiled_{};
};

}  // namespace headroom
