#include "base/text/name_filter.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text/nearest.hpp"

namespace headroom {

NameFilter::NameFilter(const std::string& pattern) : pattern_(pattern) {
  if (regcomp(&compiled_, pattern.c_str(), REG_EXTENDED) != 0) fail_usage("'{}' is not a regular expression", pattern);
}

bool NameFilter::takes(const std::string& name) const { return regexec(&compiled_, name.c_str(), 0, nullptr, 0) == 0; }

bool NameFilter::takes_whole(const std::string& name) const {
  regmatch_t match;  // the leftmost, and the longest of those (POSIX): a whole match, if there is one
  return regexec(&compiled_, name.c_str(), 1, &match, 0) == 0 && match.rm_so == 0 &&
         match.rm_eo == static_cast<regoff_t>(name.size());
}

void NameFilter::check_takes_any(std::span<const std::string> names, std::string_view what) const {
  if (std::ranges::none_of(names, [&](const std::string& name) { return takes(name); }))
    fail_usage("no {} has a name that matches '{}'{}", what, pattern_, did_you_mean(pattern_, names, Likeness::kPart));
}

}  // namespace headroom
