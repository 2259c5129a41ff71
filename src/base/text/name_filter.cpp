#include "base/text/name_filter.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text/nearest.hpp"

namespace headroom {

NameFilter::NameFilter(const std::string& pattern) : pattern_(pattern) {
  constexpr int kFlags = REG_EXTENDED | REG_NOSUB;
  if (regcomp(&compiled_, pattern.c_str(), kFlags) != 0) fail_usage("'{}' is not a regular expression", pattern);
  // rejects a pattern with an unmatched closing parenthesis
  if (regcomp(&whole_, ("^(" + pattern + ")$").c_str(), kFlags) != 0) {
    regfree(&compiled_);
    fail_usage("'{}' is not a regular expression", pattern);
  }
}

NameFilter::~NameFilter() {
  regfree(&compiled_);
  regfree(&whole_);
}

bool NameFilter::takes(const std::string& name) const { return regexec(&compiled_, name.c_str(), 0, nullptr, 0) == 0; }

bool NameFilter::takes_whole(const std::string& name) const {
  return regexec(&whole_, name.c_str(), 0, nullptr, 0) == 0;
}

void NameFilter::check_takes_any(std::span<const std::string> names, std::string_view what) const {
  if (std::ranges::none_of(names, [&](const std::string& name) { return takes(name); }))
    fail_usage("no {} has a name that matches '{}'{}", what, pattern_, did_you_mean(pattern_, names, Likeness::kPart));
}

}  // namespace headroom
