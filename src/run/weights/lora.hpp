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

/// A LoRA file and its weight: the model is W + weight * alpha / rank * B A. In a DoRA, the weight scales B A before
/// norms are computed, as in peft.
struct LoraUse {
  std::string file;
  double weight = 1;
  friend bool operator==(const LoraUse&, const LoraUse&) = default;
};

/// Parses "style.safetensors" or "style.safetensors:0.8". Throws a usage Error if the weight is not a number.
[[nodiscard]] LoraUse parse_lora(const std::string& text);

/// Open LoRA files, each read once: repeated requests give updates with the same elements.
class LoraFiles {
 public:
  /// The updates of the params of `components`, a whole pipeline or a single network, from these files in order. If
  /// several files replace a norm's gain, the last one with a nonzero weight applies, whatever that weight is. Throws
  /// Error with the file and tensor if no module has that name, or if its shape differs. Throws Error if no module of
  /// a file belongs to these components.
  [[nodiscard]] ParamUpdates updates(std::span<const LoraUse> uses, std::span<const Component> components);
  /// A sentence for each unused part of the files: tensors of other networks, scales that the file has in addition to
  /// those of its tensors, embeddings.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

 private:
  /// Times and sizes of a file and of the files next to it.
  using Stamp = std::vector<std::pair<std::filesystem::file_time_type, std::uintmax_t>>;
  /// The contribution of a file at weight 1.
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

  std::list<Opened> opened_;  // the most recently used one first
  std::vector<std::string> notes_;
};

}  // namespace headroom
