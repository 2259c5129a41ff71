#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "measure/protocol/auto_choice.hpp"

namespace headroom {

/// Choices of `auto` that were measured before, a JSON file each (schema `headroom.auto/1`), by a key that names all
/// that they depend on.
class AutoCache {
 public:
  explicit AutoCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// In ${XDG_CACHE_HOME:-~/.cache}/headroom/auto. Nothing where neither variable names a place.
  [[nodiscard]] static std::optional<AutoCache> of_user();

  struct Entry {
    AutoChoice choice;
    std::string created;  ///< utc_now() when it was measured
  };
  /// The choice kept under this key, if there is one. Throws Error where the file is there and is not what it should
  /// be.
  [[nodiscard]] std::optional<Entry> find(const nlohmann::json& key) const;
  /// Keeps a choice, complete or not at all. Throws Error where it cannot be written.
  void store(const nlohmann::json& key, const Entry& entry) const;

  /// Where the choice of this key is kept.
  [[nodiscard]] std::filesystem::path file_of(const nlohmann::json& key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace headroom
