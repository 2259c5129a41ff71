#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// Validators for options that name an output, so that a mistake is reported before any work.
namespace headroom {

/// Whether an option takes `-` for standard output. A file of that name is `./-`.
enum class Dash : bool { kRefused, kTaken };

/// A file in one of these formats, by suffix (".png"), case-insensitive. A name without a suffix (/dev/stdout) is
/// accepted; another suffix is refused, since it would misrepresent the format.
[[nodiscard]] CLI::Validator written_as(std::vector<std::string> suffixes, Dash dash = Dash::kRefused);

/// A folder. A name with the suffix of a file format that headroom writes, or could be expected to write, is
/// refused unless the folder exists.
[[nodiscard]] CLI::Validator folder_name();

}  // namespace headroom
