#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/tensors/shape.hpp"

namespace headroom {

/// A tensor as a file stores it.
struct StoredTensor {
  std::string name;
  std::string dtype;  ///< by its name in the file's format: "BF16", "Q4_K"
  bool is_read;       ///< whether the dtype is supported
  Shape shape;
  std::uint64_t size_bytes;
};

/// The contents of the files of a network or a model, by their headers.
struct WeightsListing {
  std::string format;                        ///< "safetensors", "GGUF version 3"
  std::vector<std::filesystem::path> files;  ///< several for shards
  std::uint64_t file_bytes = 0;
  std::vector<StoredTensor> tensors;  ///< by name
  /// By key, in UTF-8. A text is kept up to 4 KiB, of an array its type, count and first elements. What all
  /// shards say alike is listed once; of a key with several values, each with its shard: "KEY (FILE)".
  std::vector<std::pair<std::string, nlohmann::json>> metadata;
  std::vector<std::string> notes;  ///< a sentence each: what is not read and what to do about it, and other remarks
};

/// Lists a safetensors or GGUF file, the shards of an index, or a folder's weights. Reads headers only. The format is
/// determined by the content.
/// Throws Error for another or a broken file, and for a folder without weights: it says what there is instead.
[[nodiscard]] WeightsListing list_weights(const std::filesystem::path& path);

}  // namespace headroom
