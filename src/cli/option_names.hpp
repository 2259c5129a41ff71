#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Alternative names of options and commands. Names of former versions are still accepted. For names of diffusers,
/// stable-diffusion.cpp and ComfyUI, errors suggest the name used here.
namespace headroom {

/// `--name=` becomes `--name` and an empty argument: CLI11 2.1 takes the argument that follows as the value.
[[nodiscard]] std::vector<std::string> with_empty_values(std::vector<std::string> arguments);

/// The arguments of the program, with former option names replaced by current ones.
struct CurrentArguments {
  std::vector<std::string> arguments;
  std::vector<std::string> notes;  ///< one sentence for each former name
};
[[nodiscard]] CurrentArguments with_current_names(std::vector<std::string> arguments);

/// A suggestion for an option that `command` does not have: "; did you mean '--steps'?", or nothing. `option` is as
/// given, with or without "=" and its value.
[[nodiscard]] std::string hint_at_option(const CLI::App& command, std::string_view option);
/// The same for a command that the program does not have: "; did you mean 'headroom --help'?"
[[nodiscard]] std::string hint_at_command(const CLI::App& app, std::string_view command);

}  // namespace headroom
