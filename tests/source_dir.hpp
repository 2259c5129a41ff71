#pragma once

#include <filesystem>

namespace headroom {

/// The source tree, or the folder that a bundle was unpacked into.
inline std::filesystem::path source_dir() {
  const std::filesystem::path built_from = HEADROOM_SOURCE_DIR;
  return std::filesystem::exists(built_from)
             ? built_from
             : std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

}  // namespace headroom
