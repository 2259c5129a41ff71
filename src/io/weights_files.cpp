#include "io/weights_files.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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

std::string whole_name(const WeightsName& name) { return fmt::format("{}.safetensors", name.stem); }
std::string index_name(const WeightsName& name) { return fmt::format("{}.safetensors.index.json", name.stem); }

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

std::optional<FoundWeights> find_weights(const fs::path& folder) {
  for (const WeightsName& name : kWeightsNames) {
    const fs::path whole = folder / whole_name(name), index = folder / index_name(name);
    const bool has_whole = is_there(whole), has_index = is_there(index);
    if (!has_whole && !has_index) continue;
    if (!has_index) return FoundWeights{whole};
    if (!has_whole) return FoundWeights{index};
    if (const auto missing = find_missing_shard(index))
      return FoundWeights{whole, fmt::format("{} names the shard {}, which is not there: the weights are those of {}",
                                             index.native(), printable_name(*missing), whole.filename().native())};
    const fs::path& taken = name.prefers_shards ? index : whole;
    return FoundWeights{taken, fmt::format("{} has {} and the shards of {}: the weights are those of the {}, as {} "
                                           "takes them",
                                           folder.native(), whole.filename().native(), index.filename().native(),
                                           name.prefers_shards ? "shards" : "whole file", name.library)};
  }
  return std::nullopt;
}

std::vector<std::string> weights_file_names() {
  std::vector<std::string> names;
  for (const WeightsName& name : kWeightsNames) names.insert(names.end(), {whole_name(name), index_name(name)});
  return names;
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
