#pragma once

#include <string>
#include <vector>

namespace headroom {

/// The prompts of a UTF-8 text file, one per line. Empty lines and a byte order mark at the beginning are skipped.
/// Throws Error if the file cannot be read, is in UTF-16, or has no prompts.
[[nodiscard]] std::vector<std::string> read_prompts(const std::string& path);

}  // namespace headroom
