#pragma once

#include <CLI/CLI.hpp>

#include "base/error.hpp"

namespace headroom {

/// Adds every command to the program (commands.hpp), and what holds for the options of all: each takes one value each time that it is
/// given, so that what follows is an argument of its own, and refuses an empty one unless that says something. `exit_code` must outlive
/// the parsing.
void add_all_commands(CLI::App& app, ExitCode& exit_code);

}  // namespace headroom
