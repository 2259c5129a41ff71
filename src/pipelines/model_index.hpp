#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace headroom {

/// The parts of a pipeline folder in diffusers' layout. model_index.json names the class of the pipeline, and for
/// each part its library and class: {"vae": ["diffusers", "AutoencoderKL"]}. Each part is in a subfolder of its name.
/// A part that the pipeline does without is [null, null].
class ModelIndex {
 public:
  [[nodiscard]] static bool is_in(const std::filesystem::path& folder);
  /// Throws Error if the file is missing or invalid.
  explicit ModelIndex(std::filesystem::path folder);

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// "FluxPipeline"
  [[nodiscard]] const std::string& class_name() const noexcept { return class_name_; }
  [[nodiscard]] bool has(std::string_view part) const;
  /// The class of a part; empty if the part is missing.
  [[nodiscard]] std::string class_of(std::string_view part) const;
  /// A flag of the index. Throws Error if it is not true or false.
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const;
  /// The part's folder. Throws Error if the index does not name the part, if its class differs from a nonempty
  /// `expected`, or if the folder is missing.
  [[nodiscard]] std::filesystem::path part(std::string_view name, std::string_view expected = {}) const;

 private:
  std::filesystem::path folder_;
  nlohmann::json index_;
  std::string class_name_;
};

}  // namespace headroom
