#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.hpp"

/// Files of low-rank adapters (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): of some modules of a network
/// two factors, whose product is added to the module's weight. This reads what stands in the file; which params are
/// meant is the networks' to say (models/adapter_names.hpp).
namespace headroom {

/// A tensor of a file that is open.
struct FileTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;  ///< row-major, perhaps unaligned
};

/// What a file says of one module.
struct LoraModule {
  std::string name;                                ///< as the file has it: "lora_unet_double_blocks_0_img_attn_qkv"
  double scale = 1;                                ///< of the product: alpha / rank
  std::optional<FileTensor> up = {};               ///< [out, rank]
  std::optional<FileTensor> down = {};             ///< [rank, in], of a convolution [rank, in * height * width]
  std::optional<FileTensor> bias = {};             ///< [out], added to the bias with the same scale
  std::optional<FileTensor> difference = {};       ///< added to the weight as it is
  std::optional<FileTensor> bias_difference = {};  ///< added to the bias as it is
  std::optional<FileTensor> value = {};            ///< what the weight, a norm's gain, becomes
};

/// A LoRA file in one of the spellings that are in use: PEFT's and diffusers' (`x.lora_A.weight`, ranks and alphas in the header or as
/// `x.alpha`), sd-scripts' (`x.lora_down.weight`, `x.alpha`), XLabs' (`x.processor.qkv_lora1.down.weight`).
class LoraFile {
 public:
  /// Throws Error that names the file and the tensor for what is no part of a LoRA, for factors that lack the other
  /// one or do not fit it, and for kinds of adapters that are more than a product: DoRA, LoKr, LoHa, ...
  [[nodiscard]] static LoraFile open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_->path(); }
  /// By name in order. Tensors are there as long as somebody holds owner().
  [[nodiscard]] std::span<const LoraModule> modules() const noexcept { return modules_; }
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept { return file_; }

 private:
  explicit LoraFile(std::shared_ptr<const SafetensorsFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const SafetensorsFile> file_;
  std::vector<LoraModule> modules_;
};

}  // namespace headroom
