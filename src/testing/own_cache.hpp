#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/test_util.hpp"

namespace headroom::cuda {

/// Redirects the user's caches to a temporary folder for the duration of a test.
class OwnCache {
 public:
  OwnCache() {
    if (const char* const before = std::getenv("XDG_CACHE_HOME")) saved_ = before;
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  ~OwnCache() { saved_ ? setenv("XDG_CACHE_HOME", saved_->c_str(), 1) : unsetenv("XDG_CACHE_HOME"); }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_.path(); }

 private:
  TempFolder folder_;
  std::optional<std::string> saved_;
};

}  // namespace headroom::cuda
