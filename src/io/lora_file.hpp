#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.hpp"

/// Files of adapters that are added to weights. LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
/// Models", 2021) adds a matrix in two factors. LoHa and LoKr (Yeh et al., "Navigating Text-To-Image
/// Customization", 2024) and DoRA (Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024) are variants.
/// This reads the content of the file; the networks decide which params it applies to (models/adapter_names.hpp).
namespace headroom {

/// A tensor of an open file.
struct FileTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;  ///< row-major, possibly unaligned
};

/// A matrix [n, k] in factors.
struct LoraFactors {
  FileTensor up;                           ///< [n, rank], or [n, k] without `down`
  std::optional<FileTensor> down = {};     ///< [rank, k]; for a filter, k is in * height * width
  std::optional<FileTensor> core = {};     ///< [rank, rank, height * width] between the two, `down` is then [rank, in]
  std::shared_ptr<const void> owner = {};  ///< of elements that are not in the file
};

/// The content of a file for one module.
struct LoraModule {
  enum class Kind : std::uint8_t { kLora, kLoha, kLokr };

  std::string name;  ///< as in the file: "lora_unet_double_blocks_0_img_attn_qkv"
  double scale = 1;  ///< of the update: alpha / rank
  Kind kind = Kind::kLora;
  std::optional<LoraFactors> factors = {};  ///< of the update; LoHa and LoKr have two
  /// the second operand of the elementwise multiplication (LoHa), or the right one of the Kronecker product (LoKr)
  std::optional<LoraFactors> second = {};
  std::optional<FileTensor> magnitude = {};        ///< DoRA: [n, 1] for outputs or [1, in] for inputs
  std::optional<FileTensor> bias = {};             ///< [out], added to the bias with the same scale
  std::optional<FileTensor> difference = {};       ///< added to the weight unscaled
  std::optional<FileTensor> bias_difference = {};  ///< added to the bias unscaled
  std::optional<FileTensor> value = {};            ///< replaces the weight, a norm's gain
};

/// An adapter file in one of the common spellings: PEFT's and diffusers' (`x.lora_A.weight`, ranks and alphas in
/// the header, in adapter_config.json or as `x.alpha`), sd-scripts' (`x.lora_down.weight`, `x.alpha`), LyCORIS'
/// (`x.hada_w1_a`, `x.lokr_w1`, `x.dora_scale`), XLabs' (`x.processor.qkv_lora1.down.weight`).
class LoraFile {
 public:
  /// Throws Error that names the file and the tensor: for tensors that are not part of such an adapter, and for
  /// factors whose counterpart is missing or does not fit. Also for adapters that are more than an update of
  /// weights (OFT, IA3, ...), and for unsupported scales outside the tensors (io/lora_scales.hpp).
  [[nodiscard]] static LoraFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_->path(); }
  /// Sorted by name. The tensors are valid as long as an owner() is held.
  [[nodiscard]] std::span<const LoraModule> modules() const noexcept { return modules_; }
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept { return file_; }
  /// Sentences about parts of the file that are not used.
  [[nodiscard]] std::span<const std::string> notes() const noexcept { return notes_; }

 private:
  explicit LoraFile(std::shared_ptr<const SafetensorsFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const SafetensorsFile> file_;
  std::vector<LoraModule> modules_;
  std::vector<std::string> notes_;
};

}  // namespace headroom
