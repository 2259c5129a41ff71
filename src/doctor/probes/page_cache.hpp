#pragma once

#include <cstdint>
#include <filesystem>
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

/// Throws Error if one of the files cannot be read.
[[nodiscard]] ModelFiles look_at_files(std::span<const std::filesystem::path> files);

}  // namespace headroom::doctor
