#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "io/safetensors.hpp"

/// Checkpoints whose weights another library quantized: bitsandbytes, torchao, optimum-quanto, GGUF, GPTQ, AWQ and
/// others. Their formats are not read, and their tensors have names and shapes of their own, so that a message about
/// missing tensors would not say why.
namespace headroom {

/// Throws Error that names the library, how it was recognized, and what to do, where the tensors of a folder are
/// quantized. `unread` are the names of those of types that are not read. A `quantization_config` alone is not enough:
/// it remains where a model was dequantized and saved again.
void refuse_foreign_tensors(const std::filesystem::path& folder, const nlohmann::json& config,
                            std::span<const TensorSpec> tensors, std::span<const std::string> unread);

/// The same for a folder without weights that are read, by its files and its config.json; null where it has none.
void refuse_foreign_files(const std::filesystem::path& folder, const nlohmann::json& config);

/// The same for a single file that is given as a model: one in GGUF.
void refuse_foreign_file(const std::filesystem::path& file);

}  // namespace headroom
