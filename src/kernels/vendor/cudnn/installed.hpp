#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace headroom::cudnn {

/// The oldest version with attention as it is used here, 9.13.1: the unified operation.
inline constexpr std::size_t kLeastVersionOfAttention = 91301;

/// Why the library cannot be used here (not installed), or nothing. Opens it at the first call.
[[nodiscard]] std::optional<std::string> why_not_installed();

/// "cuDNN 9.19.0", where it is installed.
[[nodiscard]] std::string version_text();

}  // namespace headroom::cudnn
