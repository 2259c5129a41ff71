#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace headroom::doctor {

/// The files of a model's weights, and how much of them the page cache holds.
struct ModelFiles {
  std::vector<std::filesystem::path> files;
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> cached_bytes;  ///< nothing if the system does not say
};

/// The bytes of a file that are in memory (mincore). Nothing if the file cannot be mapped, or if this process may not
/// write it: Linux then says of every page that it is in memory.
[[nodiscard]] std::optional<std::uint64_t> cached_bytes(const std::filesystem::path& file);

/// cached_bytes() of a file, or of all files below a folder, by canonical path. To be asked before a model is opened:
/// reading a header makes the system read ahead, megabytes of each file.
using CachedFiles = std::map<std::filesystem::path, std::optional<std::uint64_t>>;
[[nodiscard]] CachedFiles cached_files(const std::filesystem::path& place);

/// With what was cached of the files `before`, or is now of those that are not in it. Throws Error if one of the files
/// cannot be read.
[[nodiscard]] ModelFiles look_at_files(std::span<const std::filesystem::path> files, const CachedFiles& before = {});

}  // namespace headroom::doctor
