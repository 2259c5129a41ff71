#pragma once

#include <CLI/CLI.hpp>

#include "base/error.hpp"

namespace headroom {

/// Adds every command to the program (commands.hpp) and sets rules for all their options. Each option takes one
/// value each time it is given; a following word is an argument of its own. Empty values are refused, except by
/// options for which they have a meaning. `exit_code` must outlive the parsing.
void add_all_commands(CLI::App& app, ExitCode& exit_code);

}  // namespace headroom
