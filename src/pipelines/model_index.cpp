#include "pipelines/model_index.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

constexpr const char* kFile = "model_index.json";

/// Whether it is ["diffusers", "AutoencoderKL"].
bool is_part(const nlohmann::json& entry) {
  return entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string();
}

}  // namespace

bool ModelIndex::is_in(const std::filesystem::path& folder) { return std::filesystem::exists(folder / kFile); }

ModelIndex::ModelIndex(std::filesystem::path folder) : folder_(std::move(folder)), index_(read_json(folder_ / kFile)) {
  const std::string path = (folder_ / kFile).string();
  if (!index_.is_object()) fail("{} is not a JSON object", path);
  class_name_ = get_string(index_, "_class_name", path);
}

bool ModelIndex::has(std::string_view part) const {
  const auto found = index_.find(part);
  return found != index_.end() && is_part(*found);
}

std::string ModelIndex::class_of(std::string_view part) const {
  return has(part) ? index_.at(part)[1].get<std::string>() : std::string();
}

bool ModelIndex::flag(std::string_view key, bool fallback) const {
  return get_bool_or(index_, key, fallback, (folder_ / kFile).string());
}

std::filesystem::path ModelIndex::part(std::string_view name, std::string_view expected) const {
  if (!has(name)) fail("{} has no part '{}', which {} needs", (folder_ / kFile).string(), name, class_name_);
  const std::string class_of_part = class_of(name);
  if (!expected.empty() && class_of_part != expected)
    fail("{}: {} is {}, expected {}", (folder_ / kFile).string(), name, class_of_part, expected);
  const std::filesystem::path folder = folder_ / name;
  if (!std::filesystem::is_directory(folder))
    fail("{} is not there, though {} names it: the download may be incomplete", folder.string(), kFile);
  return folder;
}

}  // namespace headroom
