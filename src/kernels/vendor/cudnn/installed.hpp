#pragma once

#include <optional>
#include <string>

namespace headroom::cudnn {

/// Why the library cannot be used here (not installed), or nothing. Opens it at the first call.
[[nodiscard]] std::optional<std::string> why_not_installed();

/// "cuDNN 9.19.0", where it is installed.
[[nodiscard]] std::string version_text();

}  // namespace headroom::cudnn
