#include "io/weights_files.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kListed = 5;  // names shown in a message

/// The first shard of an index that is missing in its folder.
std::optional<std::string> find_missing_shard(const fs::path& index) {
  for (const auto& [tensor, shard] : read_index(index))
    if (!is_there(index.parent_path() / shard)) return shard;
  return std::nullopt;
}

/// File names of weights, and which of a whole file and shards the library that uses the name prefers.
struct WeightsName {
  std::string_view stem;
  std::string_view library;
  bool prefers_shards;
};
constexpr WeightsName kWeightsNames[] = {{"diffusion_pytorch_model", "diffusers", true},
                                         {"model", "transformers", false}};

/// "model.safetensors", or for a variant "model.fp16.safetensors"
std::string whole_name(const WeightsName& name, std::string_view variant) {
  return variant.empty() ? fmt::format("{}.safetensors", name.stem)
                         : fmt::format("{}.{}.safetensors", name.stem, variant);
}

/// For a variant, the name that libraries write now, and the older one.
std::vector<std::string> index_names(const WeightsName& name, std::string_view variant) {
  if (variant.empty()) return {fmt::format("{}.safetensors.index.json", name.stem)};
  return {fmt::format("{}.safetensors.index.{}.json", name.stem, variant),
          fmt::format("{}.{}.safetensors.index.json", name.stem, variant)};
}

/// The index of shards, if there is one.
std::optional<fs::path> find_index(const fs::path& folder, const WeightsName& name, std::string_view variant) {
  for (const std::string& index : index_names(name, variant))
    if (is_there(folder / index)) return folder / index;
  return std::nullopt;
}

std::optional<FoundWeights> find_variant(const fs::path& folder, std::string_view variant) {
  for (const WeightsName& name : kWeightsNames) {
    const fs::path whole = folder / whole_name(name, variant);
    const std::optional<fs::path> index = find_index(folder, name, variant);
    const bool has_whole = is_there(whole);
    if (!has_whole && !index) continue;
    if (!index) return FoundWeights{whole};
    if (!has_whole) return FoundWeights{*index};
    if (const auto missing = find_missing_shard(*index))
      return FoundWeights{whole, fmt::format("{} names the shard {}, which is not there: the weights are those of {}",
                                             index->native(), printable_name(*missing), whole.filename().native())};
    const fs::path& taken = name.prefers_shards ? *index : whole;
    return FoundWeights{taken, fmt::format("{} has {} and the shards of {}: the weights are those of the {}, as {} "
                                           "takes them",
                                           folder.native(), whole.filename().native(), index->filename().native(),
                                           name.prefers_shards ? "shards" : "whole file", name.library)};
  }
  return std::nullopt;
}

/// The middle of `text` between these ends; empty if it has other ends or no middle.
std::string_view between(std::string_view text, std::string_view front, std::string_view end) {
  if (text.size() <= front.size() + end.size() || !text.starts_with(front) || !text.ends_with(end)) return {};
  return text.substr(front.size(), text.size() - front.size() - end.size());
}

/// The variants of which the folder has a whole file or an index. Shards, "fp16-00001-of-00002", are no variants.
std::set<std::string> list_variants(const fs::path& folder) {
  std::set<std::string> variants;
  for (const fs::path& path : list_folder(folder)) {
    const std::string file = path.filename().native();
    for (const WeightsName& name : kWeightsNames) {
      const std::string stem(name.stem);
      for (const std::string_view variant :
           {between(file, stem + ".", ".safetensors"), between(file, stem + ".safetensors.index.", ".json"),
            between(file, stem + ".", ".safetensors.index.json")})
        if (!variant.empty() && variant.find_first_of(".-/") == std::string_view::npos) variants.emplace(variant);
    }
  }
  return variants;
}

}  // namespace

std::string join_some(std::span<const std::string> names) {
  std::vector<std::string> some;
  for (const std::string& name : names.first(std::min(kListed, names.size())))
    some.push_back(shortened(printable_name(name), 200));
  const std::string shown = fmt::format("{}", fmt::join(some, ", "));
  return names.size() <= kListed ? shown : fmt::format("{} and {} more", shown, names.size() - kListed);
}

std::string contents_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : list_folder(folder)) {
    std::error_code unknown;
    names.push_back(path.filename().string() + (fs::is_directory(path, unknown) ? "/" : ""));
  }
  std::ranges::sort(names);
  return names.empty() ? "nothing" : join_some(names);
}

std::map<std::string, std::string> read_index(const fs::path& index) {
  const nlohmann::json document = read_json(index);
  const nlohmann::json& weight_map = get(document, "weight_map", index.native());
  if (!weight_map.is_object()) fail("\"weight_map\" in {} is not an object", index.native());
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, value] : weight_map.items()) {
    const auto shard = value.is_string() ? value.get<std::string>() : "";
    // Only plain names: an index must not refer to files outside its folder.
    if (shard.empty() || shard == "." || shard == ".." || shard.find_first_of("/\\") != std::string::npos) {
      fail("{} maps {} to {}, but the name of a file in the same folder was expected", index.native(),
           printable_name(tensor), shortened(value.dump(-1, ' ', true), 200));
    }
    shards.emplace(tensor, shard);
  }
  return shards;
}

std::optional<FoundWeights> find_weights(const fs::path& folder, std::string_view variant) {
  if (std::optional<FoundWeights> found = find_variant(folder, variant); found || !variant.empty()) return found;
  const std::set<std::string> variants = list_variants(folder);
  if (variants.size() > 1) {
    const std::vector<std::string> names(variants.begin(), variants.end());
    fail("{} has weights of several variants, {}: choose one, such as --variant {}", folder.native(), join_some(names),
         printable_name(names.front()));
  }
  if (variants.empty()) return std::nullopt;
  const std::string& only = *variants.begin();
  std::optional<FoundWeights> found = find_variant(folder, only);
  if (found && found->note.empty())
    found->note = fmt::format("{} has only weights of the variant {}: the weights are those of {}", folder.native(),
                              printable_name(only), found->path.filename().native());
  return found;
}

std::vector<std::string> weights_file_names(std::string_view variant) {
  std::vector<std::string> names;
  for (const WeightsName& name : kWeightsNames) {
    names.push_back(whole_name(name, variant));
    std::ranges::copy(index_names(name, variant), std::back_inserter(names));
  }
  return names;
}

bool has_weights_file(const fs::path& folder) {
  return std::ranges::any_of(weights_file_names(), [&](const std::string& name) { return is_there(folder / name); }) ||
         !list_variants(folder).empty();
}

std::optional<fs::path> find_gguf(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::path& path : list_folder(folder))
    if (path.extension() == ".gguf") found.push_back(path);
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (const fs::path& path : found) names.push_back(path.filename().native());
    fail("{} has {} GGUF files, but one was expected: {}", folder.native(), found.size(), join_some(names));
  }
  return found.empty() ? std::nullopt : std::optional(found.front());
}

}  // namespace headroom
