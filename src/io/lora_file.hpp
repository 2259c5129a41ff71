#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.hpp"

/// Files of adapters that are added to weights: LoRA (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021), whose update is
/// a product of two factors, LoHa and LoKr (Yeh et al., "Navigating Text-To-Image Customization", 2024), and DoRA (Liu et
/// al., "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024). This reads what stands in the file; which params are
/// meant is the networks' to say (models/adapter_names.hpp).
namespace headroom {

/// A tensor of a file that is open.
struct FileTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;  ///< row-major, perhaps unaligned
};

/// A matrix [n, k] in factors.
struct LoraFactors {
  FileTensor up;                           ///< [n, rank], or [n, k] where it is alone
  std::optional<FileTensor> down = {};     ///< [rank, k]; of a filter, k is in * height * width
  std::optional<FileTensor> core = {};     ///< [rank, rank, height * width] between the two, `down` is then [rank, in]
  std::shared_ptr<const void> owner = {};  ///< of elements that are not the file's
};

/// What a file says of one module.
struct LoraModule {
  enum class Kind : std::uint8_t { kLora, kLoha, kLokr };

  std::string name;  ///< as the file has it: "lora_unet_double_blocks_0_img_attn_qkv"
  double scale = 1;  ///< of the update: alpha / rank
  Kind kind = Kind::kLora;
  std::optional<LoraFactors> factors = {};  ///< of the update, of which LoHa and LoKr have two
  std::optional<LoraFactors> second = {};  ///< multiplied by element (LoHa), or the right of a Kronecker product (LoKr)
  std::optional<FileTensor> magnitude = {};        ///< DoRA's: [n, 1] of outputs or [1, in] of inputs
  std::optional<FileTensor> bias = {};             ///< [out], added to the bias with the same scale
  std::optional<FileTensor> difference = {};       ///< added to the weight as it is
  std::optional<FileTensor> bias_difference = {};  ///< added to the bias as it is
  std::optional<FileTensor> value = {};            ///< what the weight, a norm's gain, becomes
};

/// An adapter's file in one of the spellings that are in use: PEFT's and diffusers' (`x.lora_A.weight`, ranks and alphas in the header,
/// in adapter_config.json or as `x.alpha`), sd-scripts' (`x.lora_down.weight`, `x.alpha`), LyCORIS' (`x.hada_w1_a`, `x.lokr_w1`,
/// `x.dora_scale`), XLabs' (`x.processor.qkv_lora1.down.weight`).
class LoraFile {
 public:
  /// Throws Error that names the file and the tensor for what is no part of such an adapter, for factors that lack the other
  /// one or do not fit it, for kinds of adapters that are more than an update of weights (OFT, IA3, ...), and for scales outside the tensors
  /// that cannot be taken (io/lora_scales.hpp).
  [[nodiscard]] static LoraFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_->path(); }
  /// By name in order. Tensors are there as long as somebody holds owner().
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
