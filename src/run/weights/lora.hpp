#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "run/component.hpp"
#include "run/weights/param_update.hpp"

namespace headroom {

/// A LoRA file, and how much of it is added: the model is W + weight * alpha / rank * B A. Of a DoRA the weight
/// scales the product before norms are taken, as in peft.
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
  /// Throws Error that names the file and the tensor where no module is called so, or its shape is another, and where none of
  /// a file's modules is of these components.
  [[nodiscard]] ParamUpdates updates(std::span<const LoraUse> uses, std::span<const Component> components);
  /// What was not used of those files, a sentence each: tensors of networks that are not among the components, scales
  /// that the file states beside its tensors', embeddings.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

 private:
  /// Times and sizes of a file and of what stands beside it.
  using Stamp = std::vector<std::pair<std::filesystem::file_time_type, std::uintmax_t>>;
  /// What a file adds at weight 1.
  struct Opened {
    std::string name;  ///< as given
    std::filesystem::path path;
    Stamp stamp;
    ParamUpdates updates;
    std::vector<std::string> notes;
  };
  static constexpr std::size_t kMostOpen = 32;
  [[nodiscard]] static Stamp stamp_of(const std::filesystem::path& path);
  [[nodiscard]] const Opened& open(const std::string& file, std::span<const Component> components);

  std::list<Opened> opened_;  // the one used last in front
  std::vector<std::string> notes_;
};

}  // namespace headroom
