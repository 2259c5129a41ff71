#include "io/weights_listing.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "io/checkpoint.hpp"
#include "io/foreign_quantization.hpp"
#include "io/gguf.hpp"
#include "io/safetensors.hpp"
#include "io/tensor_source.hpp"
#include "io/weights_files.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostTextBytes = 4096;
constexpr std::size_t kMostElements = 8;

std::string shown_text(std::string_view text) {
  // Escapes are longer than the bytes; more than this cannot be shown.
  return shortened(well_formed(text.substr(0, 2 * kMostTextBytes)), kMostTextBytes);
}

json shown_number(double number) {
  return std::isfinite(number) ? json(number) : json(fmt::format("{}", number));  // JSON has no infinity
}

json shown_value(const GgufValue& value) {
  if (const auto text = value.text()) return shown_text(*text);
  if (const auto integer = value.integer()) return *integer;
  if (const auto large = value.large_integer()) return *large;
  if (const auto boolean = value.boolean()) return *boolean;
  if (const auto number = value.number()) return shown_number(*number);
  json first = json::array();
  for (const GgufValue& element : value.elements(kMostElements)) first.push_back(shown_value(element));
  return {{"type", name_of(value.element_type())}, {"count", value.count()}, {"first", std::move(first)}};
}

/// Builds a listing of one or several files.
class Lister {
 public:
  void add_safetensors(const fs::path& path) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    listing_.format = "safetensors";
    add_file(path);
    for (const auto& [name, entry] : file.entries()) {
      add({name, std::string(safetensors_name_of(entry.dtype)), true, entry.shape, entry.size_bytes});
      specs_.push_back({name, entry.dtype, entry.shape});
    }
    for (const auto& [name, tensor] : file.unread()) {
      add({name, std::string(tensor.dtype), false, tensor.shape, tensor.size_bytes});
      unread_.push_back(name);
    }
    for (const auto& [key, text] : file.metadata()) metadata_[well_formed(key)].emplace_back(path, shown_text(text));
  }

  void add_shards(const fs::path& index) {
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : read_index(index)) shards.insert(shard);
    for (const std::string& shard : shards) {
      const fs::path path = index.parent_path() / shard;
      if (is_there(path))
        add_safetensors(path);
      else
        note("{} names the shard {}, which is not there", index.native(), printable_name(shard));
    }
    if (listing_.files.empty()) fail("{} names no shard that is there", index.native());
  }

  void add_gguf(const fs::path& path) {
    const GgufFile file = GgufFile::open(path);
    listing_.format = fmt::format("GGUF version {}", file.header().version);
    add_file(path);
    for (const GgufTensor& tensor : file.header().tensors)
      add({std::string(tensor.name), std::string(tensor.format->name), tensor.format->is_read(), tensor.shape,
           tensor.size_bytes});
    for (const GgufEntry& entry : file.header().metadata)
      metadata_[well_formed(entry.key)].emplace_back(path, shown_value(entry.value));
    if (const std::optional<GgufPart>& part = file.header().part)
      note("{} is part {} of {} of a split model: `llama-gguf-split --merge` joins them", path.native(), part->number,
           part->count);
  }

  void add_folder(const fs::path& folder) {
    if (std::optional<FoundWeights> found = find_weights(folder)) {
      found->path.extension() == ".json" ? add_shards(found->path) : add_safetensors(found->path);
      if (!found->note.empty()) listing_.notes.push_back(std::move(found->note));
    } else if (const std::optional<fs::path> gguf = find_gguf(folder)) {
      add_gguf(*gguf);
    } else {
      fail_without_weights(folder);
    }
    if (is_there(folder / "config.json")) config_ = read_config(folder);
  }

  WeightsListing finish() {
    std::ranges::sort(listing_.tensors, {}, &StoredTensor::name);
    for (auto& [key, values] : metadata_) list_metadata(key, values);
    std::ranges::sort(unread_);
    if (const auto format = find_foreign_format(config_, specs_, unread_)) note("it {}", sentence_of(*format));
    std::set<std::string> dtypes;
    for (const StoredTensor& tensor : listing_.tensors)
      if (!tensor.is_read) dtypes.insert(tensor.dtype);
    if (!dtypes.empty())
      note("{} {} not read: the model is needed in another type", fmt::join(dtypes, ", "),
           dtypes.size() == 1 ? "is" : "are");
    return std::move(listing_);
  }

 private:
  template <typename... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    listing_.notes.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void list_metadata(const std::string& key, std::vector<std::pair<fs::path, json>>& values) {
    const bool is_common =
        std::ranges::all_of(values, [&](const auto& each) { return each.second == values[0].second; });
    if (is_common) values.resize(1);
    for (auto& [path, value] : values)
      listing_.metadata.emplace_back(
          is_common ? key : fmt::format("{} ({})", key, well_formed(path.filename().native())), std::move(value));
  }

  void add(StoredTensor tensor) { listing_.tensors.push_back(std::move(tensor)); }

  void add_file(const fs::path& path) {
    listing_.files.push_back(path);
    listing_.file_bytes += fs::file_size(path);
  }

  [[noreturn]] static void fail_without_weights(const fs::path& folder) {
    std::vector<std::string> parts;
    for (const fs::path& path : list_folder(folder))
      if (is_folder(path) && has_weights(path)) parts.push_back(path.native());
    if (!parts.empty())
      fail("{} holds the weights of several networks: give the folder of one, {}", folder.native(), join_some(parts));
    fail("{} has no safetensors or GGUF file of weights; it holds {}", folder.native(), contents_of(folder));
  }

  WeightsListing listing_;
  std::map<std::string, std::vector<std::pair<fs::path, json>>> metadata_;  // values by key, with their files
  std::vector<TensorSpec> specs_;                                           // of safetensors, for find_foreign_format()
  std::vector<std::string> unread_;                                         // likewise
  json config_;                                                             // null if there is none
};

}  // namespace

WeightsListing list_weights(const fs::path& path) {
  Lister lister;
  try {
    if (!is_there(path)) fail("there is no file or folder {}", path.native());
    if (is_folder(path)) {
      lister.add_folder(path);
      return lister.finish();
    }
    if (path.native().ends_with(".index.json")) {
      lister.add_shards(path);
      return lister.finish();
    }
    const MappedFile file(path);
    if (is_pickle(file.bytes())) refuse_pickle(path);
    is_gguf(file.bytes()) ? lister.add_gguf(path) : lister.add_safetensors(path);
    return lister.finish();
  } catch (const fs::filesystem_error& error) {
    fail("cannot read {}: {}", error.path1().native(), error.code().message());
  }
}

}  // namespace headroom
