#pragma once

#include <string>
#include <vector>

namespace headroom {

/// The prompts of a text file in UTF-8, one a line; empty lines are left out, and a byte order mark in front of the
/// first. Throws Error where it cannot be read, is in UTF-16, or holds none.
[[nodiscard]] std::vector<std::string> read_prompts(const std::string& path);

}  // namespace headroom
