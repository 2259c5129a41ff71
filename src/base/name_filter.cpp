#include "base/name_filter.hpp"

#include "base/error.hpp"

namespace headroom {

NameFilter::NameFilter(const std::string& pattern) {
  if (regcomp(&compiled_, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
    fail_usage("'{}' is not a regular expression", pattern);
}

bool NameFilter::takes(const std::string& name) const { return regexec(&compiled_, name.c_str(), 0, nullptr, 0) == 0; }

}  // namespace headroom
