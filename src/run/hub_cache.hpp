#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The cache in which the Hugging Face hub's programs (`hf download`, diffusers, transformers) keep downloads. Each
/// model has a folder `models--ORG--NAME` with `refs/main`, which names a commit, and `snapshots/COMMIT`, which holds
/// its files. Nothing is downloaded here.
namespace headroom {

/// The path of the cache: $HF_HUB_CACHE, or else $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
/// ~/.cache/huggingface/hub. It need not exist. Nothing if none of the variables is set.
[[nodiscard]] std::optional<std::filesystem::path> hub_cache_folder();

/// Whether it has the form ORG/NAME: two parts of letters, digits, dots, hyphens and underscores.
[[nodiscard]] bool is_hub_name(std::string_view name);
/// The cache's folder of ORG/NAME, possibly without a snapshot; nothing if there is none.
[[nodiscard]] std::optional<std::filesystem::path> find_in_hub_cache(std::string_view name);
/// All models in the cache as ORG/NAME, in order.
[[nodiscard]] std::vector<std::string> names_in_hub_cache();

/// Whether it is the folder of a model in such a cache, and not that of a snapshot.
[[nodiscard]] bool is_hub_folder(const std::filesystem::path& folder);
/// The snapshot that `refs/main` of such a folder names, or the only one. Throws Error if it is missing, or if there
/// are several and none is named.
[[nodiscard]] std::filesystem::path hub_snapshot(const std::filesystem::path& folder);

/// The name of a model in a folder: the folder's name, or for a snapshot in such a cache the model's (NAME of
/// ORG/NAME).
[[nodiscard]] std::string model_name_of(const std::filesystem::path& folder);

}  // namespace headroom
