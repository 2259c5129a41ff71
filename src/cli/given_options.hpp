#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Support for commands that run themselves again in a separate process.
namespace headroom {

/// The given options of a command, each as one word ("--steps=4"), except those named in `others`.
[[nodiscard]] std::vector<std::string> given_options(const CLI::App& command, std::span<const std::string_view> others);

/// The path of this program.
[[nodiscard]] std::string own_program();

}  // namespace headroom
