#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace headroom {

/// How a command is called, in a line: "headroom convert MODEL --out DIR [options]".
[[nodiscard]] std::string usage_of(const CLI::App& command);

/// The line that follows a mistake in the arguments: the usage of the command that they chose, or of the program where
/// they chose none, and where to read more.
[[nodiscard]] std::string usage_hint(const CLI::App& app);

/// What is wrong with the command line, in plain words where the library has none. `arguments` are those that were parsed.
[[nodiscard]] std::string explain(const CLI::App& app, const CLI::ParseError& error,
                                  const std::vector<std::string>& arguments);

/// Help that begins with usage_of().
class UsageFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* command, std::string name) const override;
};

}  // namespace headroom
