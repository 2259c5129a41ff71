#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "io/safetensors.hpp"

/// Detects checkpoints that another library quantized: bitsandbytes, torchao, optimum-quanto, GPTQ, AWQ and
/// others. Their formats are not supported. Their tensors have different names and shapes, so an error about
/// missing tensors would not explain the cause.
namespace headroom {

/// A quantized format that is not read.
struct ForeignFormat {
  std::string method;    ///< as a config.json names it
  std::string evidence;  ///< "its tensor x.SCB"
};
/// "was quantized by bitsandbytes (its tensor x.SCB), whose format is not read: ...", with the remedy.
[[nodiscard]] std::string sentence_of(const ForeignFormat& format);

/// The format of a network's tensors, by its config.json (null if there is none) and their names; empty if they are not
/// quantized. `unread` are the names of tensors of unsupported types. A `quantization_config` alone is not enough,
/// because it remains when a dequantized model is saved.
[[nodiscard]] std::optional<ForeignFormat> find_foreign_format(const nlohmann::json& config,
                                                               std::span<const TensorSpec> tensors,
                                                               std::span<const std::string> unread);

/// Throws Error if the tensors of a folder have such a format.
void refuse_foreign_tensors(const std::filesystem::path& folder, const nlohmann::json& config,
                            std::span<const TensorSpec> tensors, std::span<const std::string> unread);

/// The same for a folder without supported weights, by its files and its config.json (null if there is none).
void refuse_foreign_files(const std::filesystem::path& folder, const nlohmann::json& config);

}  // namespace headroom
