#pragma once

#include <filesystem>
#include <vector>

namespace headroom {

/// The folders with a config.json, model_index.json or modular_model_index.json at or below `folder`, ordered by path.
/// Each is listed once, even if several links lead to it; links to parent folders are not followed again. Unreadable
/// folders and those whose names begin with a dot are left out. The search is 8 levels deep. Throws Error for more than
/// 20,000 folders.
[[nodiscard]] std::vector<std::filesystem::path> find_model_folders(const std::filesystem::path& folder);

}  // namespace headroom
