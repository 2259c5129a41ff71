#include "base/files/user_cache.hpp"

#include <cstdlib>

namespace headroom {

namespace fs = std::filesystem;

std::optional<fs::path> user_cache_folder(std::string_view name) {
  // A relative path in XDG_CACHE_HOME is to be ignored (XDG Base Directory Specification 0.8).
  if (const char* caches = std::getenv("XDG_CACHE_HOME"); caches != nullptr && fs::path(caches).is_absolute())
    return fs::path(caches) / "headroom" / name;
  if (const char* home = std::getenv("HOME"); home != nullptr && fs::path(home).is_absolute())
    return fs::path(home) / ".cache/headroom" / name;
  return std::nullopt;
}

}  // namespace headroom
