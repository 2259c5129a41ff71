#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// Checks of options that name what is to be written, so that a slip is told before any work.
namespace headroom {

/// A file that is written in one of these forms, by suffix (".png"). Upper and lower case are one, and a name without a
/// suffix (/dev/stdout) will do; another suffix would lie about what is in the file.
[[nodiscard]] CLI::Validator written_as(std::vector<std::string> suffixes);

/// A folder: not what has the suffix of a file that headroom writes or might be thought to write, unless it is one.
[[nodiscard]] CLI::Validator folder_name();

}  // namespace headroom
