#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Names of options and commands that people type though Headroom has others: those of former versions, which are still taken, and those of
/// diffusers, stable-diffusion.cpp and ComfyUI, at which errors hint.
namespace headroom {

/// The arguments of the program, with former names of options replaced by today's.
struct CurrentArguments {
  std::vector<std::string> arguments;
  std::vector<std::string> notes;  ///< a sentence for each former name, once
};
[[nodiscard]] CurrentArguments with_current_names(std::vector<std::string> arguments);

/// What an option that `command` does not have is called here: "; did you mean '--steps'?", or nothing. `option` is as it was given,
/// with its value behind "=" or without.
[[nodiscard]] std::string hint_at_option(const CLI::App& command, std::string_view option);
/// The same of a command that the program does not have: "; did you mean 'headroom --help'?"
[[nodiscard]] std::string hint_at_command(const CLI::App& app, std::string_view command);

}  // namespace headroom
