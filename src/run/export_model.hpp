#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/tensors/block_format.hpp"
#include "run/component.hpp"
#include "run/single_file.hpp"

namespace headroom {

/// Called after each tensor.
using ExportObserver = std::function<void(std::size_t done, std::size_t total)>;

/// What was written.
struct ExportedFolder {
  std::vector<std::string> parts;  ///< roles of the networks, and "scheduler"
  std::uint64_t bytes = 0;         ///< of tensors
};
/// Tensors of all networks of a file.
[[nodiscard]] std::size_t count_tensors(const SingleFile& file, const OpenOptions& options);
/// Writes the networks of a single file in diffusers' layout to the new folder `out`: for each a config.json and its
/// weights under diffusers' or transformers' names, the scheduler's configuration, and a model_index.json that names
/// them. Weights keep their dtype; those in blocks or in 8 bits become bf16. Tokenizers of `options.parts` are copied.
/// A file without a denoiser has one network, which is the folder. The folder appears complete or not at all. Throws
/// Error if it exists or cannot be written, and as SingleFile::component() does.
ExportedFolder export_folder(const SingleFile& file, const OpenOptions& options, const std::filesystem::path& out,
                             const ExportObserver& observer = {});

/// What was written, in names of tensors.
struct ExportedGguf {
  std::size_t tensors = 0;
  std::size_t packed = 0;               ///< of the tensors, in blocks
  std::uint64_t bytes = 0;              ///< of tensors
  std::vector<std::string> lossy = {};  ///< tensors with elements that their block's scale in f16 does not hold
};
/// Writes one network as GGUF. Matrices of whole blocks are packed in `format`, those of blocks of 32 alone in Q8_0;
/// vectors are f32, and others keep their dtype. The denoiser of a single file has its author's names, another network
/// those of its class. Throws Error for a network that GGUF has no architecture for, one that is quantized already in
/// 8 bits with scales, a number that cannot be packed, and if the file cannot be written.
ExportedGguf export_gguf(const Component& component, const SingleFile* file, const BlockFormat& format,
                         const std::filesystem::path& out, const ExportObserver& observer = {});

}  // namespace headroom
