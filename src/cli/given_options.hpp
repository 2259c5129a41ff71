#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a command needs to run itself again in a process of its own.
namespace headroom {

/// The options of a command that were given, each as one word ("--steps=4"), but for those named in `others`.
[[nodiscard]] std::vector<std::string> given_options(const CLI::App& command, std::span<const std::string_view> others);

/// The file of this program.
[[nodiscard]] std::string own_program();

}  // namespace headroom
