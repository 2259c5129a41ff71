#pragma once

#include <filesystem>
#include <vector>

namespace headroom {

/// The folders with a config.json or a model_index.json at or below `folder`, in order of their paths. Each is found once, whatever
/// links lead to it; links to folders above are not followed again. Folders that may not be read, and those whose names begin with a
/// dot, are left out. It looks 8 levels deep. Throws Error where there are more than 20,000 folders.
[[nodiscard]] std::vector<std::filesystem::path> find_model_folders(const std::filesystem::path& folder);

}  // namespace headroom
