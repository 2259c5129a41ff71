#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.hpp"

namespace headroom {

/// PEFT's configuration of an adapter, or of one component's: what is in its adapter_config.json.
struct PeftConfig {
  /// Values by module or by the end of its name; with ^ in front, by the whole name. Of several keys that fit the first in order counts, which is the first
  /// for peft too: it writes them in order.
  using Pattern = std::map<std::string, double, std::less<>>;

  std::string context = {};  ///< of messages: the file, or "style.safetensors: lora_adapter_metadata"
  std::string prefix = {};   ///< of the modules that it is about: "transformer."
  double alpha = 0;
  std::optional<std::int64_t> rank = {};
  bool use_rslora =
      false;  ///< alpha over the root of the rank (Kalajdzievski, "A Rank Stabilization Scaling Factor", 2023)
  bool use_dora = false;
  Pattern alpha_pattern = {};
  Pattern rank_pattern = {};

  /// Scale of a module's update whose factors have that rank; without factors the rank is the configured one, and the
  /// scale 1 where there is none.
  /// Throws Error where the configured rank is another than the factors'.
  [[nodiscard]] double scale(std::string_view module, std::optional<std::int64_t> rank) const;
};

/// adapter_config.json in the folder of a LoRA file, where PEFT writes it.
[[nodiscard]] std::filesystem::path adapter_config_beside(const std::filesystem::path& lora);

/// Scales of a LoRA file that has none in its tensors: by the header's `lora_adapter_metadata` (diffusers), by
/// adapter_config.json (PEFT), or by `lora_alpha` or the like among the header's plain keys.
class LoraScales {
 public:
  /// Properties of the tensors' names.
  struct Tensors {
    bool has_peft_names = false;
    bool has_alphas = false;  ///< beside any factors: then missing ones are 1, as in sd-scripts
  };
  /// Throws Error that names the file and the key for values that are none, and for adapters that PEFT trained on changed base weights
  /// or computes in other ways than by adding to weights.
  LoraScales(const SafetensorsFile& file, const Tensors& tensors);

  /// As PeftConfig::scale(); 1 where nothing is said of the module.
  [[nodiscard]] double scale(const std::string& module, std::optional<std::int64_t> rank) const;
  /// Whether the module's update must have magnitudes (DoRA).
  [[nodiscard]] bool needs_magnitude(const std::string& module) const;
  /// Sentences about scales that are stated and not taken, and about a configuration that may be another file's.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  void read_header(const SafetensorsFile& file);
  void read_beside(const SafetensorsFile& file, const Tensors& tensors);
  void read_plain(const SafetensorsFile& file);
  [[nodiscard]] const PeftConfig* config_of(std::string_view module) const;

  std::vector<PeftConfig> configs_;  // the longer prefixes first
  std::vector<std::string> notes_;
};

}  // namespace headroom
