#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "measure/protocol/auto_choice.hpp"

namespace headroom {

/// Cached choices of `auto`, one JSON file each (schema `headroom.auto/1`). The key names everything that a choice
/// depends on.
class AutoCache {
 public:
  explicit AutoCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// The cache in ${XDG_CACHE_HOME:-~/.cache}/headroom/auto; nothing if neither variable names a folder.
  [[nodiscard]] static std::optional<AutoCache> of_user();

  struct Entry {
    AutoChoice choice;
    std::string created;  ///< utc_now() at the measurement
  };
  /// The choice stored under this key, if there is one. Throws Error if the file exists but is invalid.
  [[nodiscard]] std::optional<Entry> find(const nlohmann::json& key) const;
  /// Stores a choice atomically. Throws Error if it cannot be written.
  void store(const nlohmann::json& key, const Entry& entry) const;

  /// The file of this key's choice.
  [[nodiscard]] std::filesystem::path file_of(const nlohmann::json& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace headroom
