#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace headroom {

/// Where this user's cache of that name lies: ${XDG_CACHE_HOME:-~/.cache}/headroom/NAME, which need not exist. Nothing
/// where neither variable names a place.
[[nodiscard]] std::optional<std::filesystem::path> user_cache_folder(std::string_view name);

}  // namespace headroom
