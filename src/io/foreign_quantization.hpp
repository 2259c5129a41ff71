#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "io/safetensors.hpp"

/// Detects checkpoints that another library quantized: bitsandbytes, torchao, optimum-quanto, GGUF, GPTQ, AWQ and
/// others. Their formats are not supported. Their tensors have different names and shapes, so an error about
/// missing tensors would not explain the cause.
namespace headroom {

/// Throws Error if the tensors of a folder are quantized; it names the library, the evidence, and the remedy.
/// `unread` are the names of tensors of unsupported types. A `quantization_config` alone is not enough, because it
/// remains when a dequantized model is saved.
void refuse_foreign_tensors(const std::filesystem::path& folder, const nlohmann::json& config,
                            std::span<const TensorSpec> tensors, std::span<const std::string> unread);

/// The same for a folder without supported weights, by its files and its config.json (null if there is none).
void refuse_foreign_files(const std::filesystem::path& folder, const nlohmann::json& config);

/// The same for a single file given as a model: GGUF.
void refuse_foreign_file(const std::filesystem::path& file);

}  // namespace headroom
