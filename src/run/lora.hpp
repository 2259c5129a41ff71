#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "run/component.hpp"
#include "run/param_update.hpp"

namespace headroom {

/// A LoRA file, and how much of it is added: the model is W + weight * alpha / rank * B A.
struct LoraUse {
  std::string file;
  double weight = 1;
  friend bool operator==(const LoraUse&, const LoraUse&) = default;
};

/// Reads "style.safetensors" or "style.safetensors:0.8". Throws a usage Error for a weight that is no number.
[[nodiscard]] LoraUse parse_lora(const std::string& text);

/// LoRA files that are open, each read once: asked for the same again, it gives updates of the same elements.
class LoraFiles {
 public:
  /// What the files, one after the other, make of the params of `components`, which are a whole pipeline or a network
  /// alone. Where several files say what a norm's gain becomes, the last one does, whatever its weight, unless that is 0.
  /// Throws Error that names the file and the tensor where no module is called so, or its shape is another.
  [[nodiscard]] ParamUpdates updates(std::span<const LoraUse> uses, std::span<const Component> components);
  /// What was not used of those files, a sentence each: tensors of networks that are not among the components.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

 private:
  /// What a file adds at weight 1.
  struct Opened {
    std::filesystem::path path;
    std::filesystem::file_time_type time;
    std::uintmax_t bytes = 0;
    ParamUpdates updates;
    std::string note;  ///< empty where all of it is used
  };
  static constexpr std::size_t kMostOpen = 32;
  [[nodiscard]] const Opened& open(const std::string& file, std::span<const Component> components);

  std::list<Opened> opened_;  // the one used last in front
  std::vector<std::string> notes_;
};

}  // namespace headroom
