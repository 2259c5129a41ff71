#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The cache in which the Hugging Face hub's programs (`hf download`, diffusers, transformers) keep what they download: a folder
/// `models--ORG--NAME` for each model, with `refs/main`, which names a commit, and `snapshots/COMMIT`, which holds its files. Nothing is
/// downloaded here.
namespace headroom {

/// Where the cache lies: $HF_HUB_CACHE, or else $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub; it need not
/// exist. Nothing where none of the variables names a place.
[[nodiscard]] std::optional<std::filesystem::path> hub_cache_folder();

/// Whether it reads as ORG/NAME: two parts of letters, digits, dots, hyphens and underscores.
[[nodiscard]] bool is_hub_name(std::string_view name);
/// The folder that the cache has of ORG/NAME, in which there need be no snapshot; nothing where it has none.
[[nodiscard]] std::optional<std::filesystem::path> find_in_hub_cache(std::string_view name);
/// The models of which the cache holds anything, as ORG/NAME, in order.
[[nodiscard]] std::vector<std::string> names_in_hub_cache();

/// Whether it is the folder of a model in such a cache, not that of one of its snapshots.
[[nodiscard]] bool is_hub_folder(const std::filesystem::path& folder);
/// The snapshot that `refs/main` of such a folder names, or the only one. Throws Error where it is not there, or there are several and
/// nothing names one.
[[nodiscard]] std::filesystem::path hub_snapshot(const std::filesystem::path& folder);

/// What a model in a folder is called: the folder's name, or of a snapshot in such a cache the model's (NAME of ORG/NAME).
[[nodiscard]] std::string model_name_of(const std::filesystem::path& folder);

}  // namespace headroom
