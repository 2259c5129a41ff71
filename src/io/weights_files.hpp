#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Finds the files of a network's weights in its folder.
namespace headroom {

/// The weights file of a folder, or the index of its shards.
struct FoundWeights {
  std::filesystem::path path;
  std::string note = {};  ///< a sentence about a choice
};
/// By the names that diffusers and transformers give. Of a whole file and shards it takes what the library of that name
/// prefers, but no index with a missing shard. With a `variant` ("fp16") it looks for that alone. Otherwise
/// it prefers files without a variant, or takes the only variant, which the note says. Empty if there are none. Throws
/// Error if there are several variants, and none is asked for.
[[nodiscard]] std::optional<FoundWeights> find_weights(const std::filesystem::path& folder,
                                                       std::string_view variant = {});

/// The names of whole files and indices of a variant, or of files without one.
[[nodiscard]] std::vector<std::string> weights_file_names(std::string_view variant = {});
/// Whether the folder has a file of such a name, of any variant.
[[nodiscard]] bool has_weights_file(const std::filesystem::path& folder);

/// The shards that an index lists, by tensor: plain names of files in its folder.
[[nodiscard]] std::map<std::string, std::string> read_index(const std::filesystem::path& index);

/// The only GGUF file of a folder; empty if there is none. Throws Error if there are several.
[[nodiscard]] std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& folder);

/// The names in a folder, for messages: "a.json, vae/ and 7 more".
[[nodiscard]] std::string contents_of(const std::filesystem::path& folder);
/// "a, b, c and 7 more"
[[nodiscard]] std::string join_some(std::span<const std::string> names);

}  // namespace headroom
