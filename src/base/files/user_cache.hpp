#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace headroom {

/// The folder of this user's cache of that name: ${XDG_CACHE_HOME:-~/.cache}/headroom/NAME, which need not exist.
/// Empty if neither variable is set.
[[nodiscard]] std::optional<std::filesystem::path> user_cache_folder(std::string_view name);

}  // namespace headroom
