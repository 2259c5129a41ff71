#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace headroom {

/// What a folder of a whole pipeline is made of, as diffusers lays it out: model_index.json names the class of the
/// pipeline, and for each part, which lies in a folder of that name, its library and class: {"vae": ["diffusers",
/// "AutoencoderKL"]}. A part that the pipeline does without is [null, null].
class ModelIndex {
 public:
  [[nodiscard]] static bool is_in(const std::filesystem::path& folder);
  /// Throws Error where the file is missing or is none.
  explicit ModelIndex(std::filesystem::path folder);

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// "FluxPipeline"
  [[nodiscard]] const std::string& class_name() const noexcept { return class_name_; }
  [[nodiscard]] bool has(std::string_view part) const;
  /// The class of a part; empty where there is no such part.
  [[nodiscard]] std::string class_of(std::string_view part) const;
  /// What it says beside the parts. Throws Error where it is not true or false.
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const;
  /// The part's folder. Throws Error where the index does not name it, names another class than `expected` (unless that
  /// is empty), or the folder is not there.
  [[nodiscard]] std::filesystem::path part(std::string_view name, std::string_view expected = {}) const;

 private:
  std::filesystem::path folder_;
  nlohmann::json index_;
  std::string class_name_;
};

}  // namespace headroom
