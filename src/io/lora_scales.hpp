#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/module_pattern.hpp"
#include "io/safetensors.hpp"

namespace headroom {

/// PEFT's configuration of an adapter, or of one component: the content of adapter_config.json.
struct PeftConfig {
  /// Values by module. The first pattern in sorted order that matches a module counts. It is also the first for peft,
  /// which writes keys sorted.
  struct PatternValue {
    ModulePattern pattern;
    double value = 0;
  };
  using Pattern = std::vector<PatternValue>;

  std::string context = {};  ///< for messages: the file, or "style.safetensors: lora_adapter_metadata"
  std::string prefix = {};   ///< of the modules that it applies to: "transformer."
  double alpha = 0;
  std::optional<std::int64_t> rank = {};
  bool use_rslora = false;  ///< alpha / sqrt(rank) (Kalajdzievski, "A Rank Stabilization Scaling Factor", 2023)
  bool use_dora = false;
  Pattern alpha_pattern = {};
  Pattern rank_pattern = {};

  /// Scale of a module's update with factors of that rank. Without factors, the configured rank is used, or a scale
  /// of 1 if there is none. Throws Error if the configured rank differs from the factors'.
  [[nodiscard]] double scale(std::string_view module, std::optional<std::int64_t> rank) const;
};

/// adapter_config.json in the folder of a LoRA file, as written by PEFT.
[[nodiscard]] std::filesystem::path adapter_config_next_to(const std::filesystem::path& lora);

/// Scales of a LoRA file without scales in its tensors. They come from the header's `lora_adapter_metadata`
/// (diffusers), from adapter_config.json (PEFT), or from plain keys of the header such as `lora_alpha`.
class LoraScales {
 public:
  /// Properties of the tensors' names.
  struct Tensors {
    bool has_peft_names = false;
    bool has_alphas = false;  ///< some factors have alphas: missing ones are then 1, as in sd-scripts
  };
  /// Throws Error that names the file and the key: for invalid values, for adapters that PEFT trained on changed
  /// base weights, and for adapters that do more than add to weights.
  LoraScales(const SafetensorsFile& file, const Tensors& tensors);

  /// As PeftConfig::scale(); 1 for modules without information.
  [[nodiscard]] double scale(const std::string& module, std::optional<std::int64_t> rank) const;
  /// Whether the module's update must have magnitudes (DoRA).
  [[nodiscard]] bool needs_magnitude(const std::string& module) const;
  /// Sentences about scales that are ignored, and about a configuration that may belong to another file.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  void read_header(const SafetensorsFile& file);
  void read_adapter_config(const SafetensorsFile& file, const Tensors& tensors);
  void read_plain(const SafetensorsFile& file);
  [[nodiscard]] const PeftConfig* config_of(std::string_view module) const;

  std::vector<PeftConfig> configs_;  // longer prefixes first
  std::vector<std::string> notes_;
};

}  // namespace headroom
