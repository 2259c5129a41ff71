#include "run/hub_cache.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <system_error>

#include "base/error.hpp"
#include "base/files/file.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kSnapshots = "snapshots";

std::optional<fs::path> folder_in(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

/// Whether it is a valid part of a model's name or name of a snapshot, which cannot lead out of its folder.
bool is_plain(std::string_view part) {
  return !part.empty() && part.front() != '.' && std::ranges::all_of(part, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

/// "ORG/NAME" for "models--ORG--NAME"; unchanged without an organization.
std::string name_of_folder(const std::string& folder) {
  std::string name = folder.substr(kPrefix.size());
  if (const std::size_t between = name.find("--"); between != std::string::npos) name.replace(between, 2, "/");
  return name;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    if (fs::is_directory(entry->path(), unknown)) found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::optional<fs::path> hub_cache_folder() {
  if (const auto cache = folder_in("HF_HUB_CACHE")) return cache;
  if (const auto home = folder_in("HF_HOME")) return *home / "hub";
  if (const auto caches = folder_in("XDG_CACHE_HOME")) return *caches / "huggingface/hub";
  if (const auto home = folder_in("HOME")) return *home / ".cache/huggingface/hub";
  return std::nullopt;
}

bool is_hub_name(std::string_view name) {
  const std::size_t between = name.find('/');
  return between != std::string_view::npos && is_plain(name.substr(0, between)) && is_plain(name.substr(between + 1));
}

std::optional<fs::path> find_in_hub_cache(std::string_view name) {
  const std::optional<fs::path> cache = hub_cache_folder();
  if (!cache || !is_hub_name(name)) return std::nullopt;
  const std::size_t between = name.find('/');
  const fs::path folder = *cache / (std::string(kPrefix) + std::string(name.substr(0, between)) + "--" +
                                    std::string(name.substr(between + 1)));
  return is_hub_folder(folder) ? std::optional(folder) : std::nullopt;
}

std::vector<std::string> names_in_hub_cache() {
  std::vector<std::string> names;
  if (const std::optional<fs::path> cache = hub_cache_folder())
    for (const fs::path& folder : folders_in(*cache))
      if (folder.filename().string().starts_with(kPrefix) && is_hub_folder(folder))
        names.push_back(name_of_folder(folder.filename().string()));
  return names;
}

bool is_hub_folder(const fs::path& folder) {
  std::error_code unknown;  // an unreadable folder counts as none
  return fs::is_directory(folder / kSnapshots, unknown) && !fs::exists(folder / "config.json", unknown) &&
         !fs::exists(folder / "model_index.json", unknown) && !fs::exists(folder / "modular_model_index.json", unknown);
}

fs::path hub_snapshot(const fs::path& folder) {
  constexpr std::uint64_t kMostBytes = 256;  // for a reference, which holds the 40 digits of a commit
  const fs::path reference = folder / "refs" / "main";
  if (is_there(reference)) {
    std::string commit = read_file(reference, {.most_bytes = kMostBytes});
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) commit.pop_back();
    if (!is_plain(commit)) fail("{} holds '{}', expected the name of a snapshot", reference.native(), commit);
    const fs::path snapshot = folder / kSnapshots / commit;
    if (!is_folder(snapshot))
      fail("{} is not there, though {} names it: the download may be incomplete", snapshot.native(),
           reference.native());
    return snapshot;
  }
  const std::vector<fs::path> snapshots = folders_in(folder / kSnapshots);
  if (snapshots.size() != 1)
    fail("{} has {} snapshots and no refs/main to name one: give the folder of one, snapshots/COMMIT", folder.native(),
         snapshots.size());
  return snapshots.front();
}

std::string model_name_of(const fs::path& folder) {
  fs::path canonical = fs::weakly_canonical(folder);
  if (!canonical.has_filename()) canonical = canonical.parent_path();  // "models/fox/"
  const fs::path parent = canonical.parent_path();
  const std::string model = parent.parent_path().filename().string();
  if (parent.filename() != kSnapshots || !model.starts_with(kPrefix)) return canonical.filename().string();
  const std::string name = name_of_folder(model);
  return name.substr(name.find('/') + 1);  // the whole name if there is no organization
}

}  // namespace headroom
