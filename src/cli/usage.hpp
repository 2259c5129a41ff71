#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace headroom {

/// The usage of a command in one line: "headroom convert MODEL --out DIR [options]".
[[nodiscard]] std::string usage_of(const CLI::App& command);

/// The line printed after a usage error: the usage of the chosen command, or of the program if none was chosen, and
/// how to get help.
[[nodiscard]] std::string usage_hint(const CLI::App& app);

/// The error message for the command line, in plain words where CLI11 has none. `arguments` are the parsed
/// arguments.
[[nodiscard]] std::string explain(const CLI::App& app, const CLI::ParseError& error,
                                  const std::vector<std::string>& arguments);

/// Help that begins with usage_of(), in lines of at most `columns`. Longer example commands continue after a
/// backslash, as in a shell.
class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::size_t columns) : columns_(columns) {}
  std::string make_description(const CLI::App* command) const override;
  std::string make_usage(const CLI::App* command, std::string name) const override;
  /// Without the second blank line that CLI11 adds for a group of hidden options.
  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* command) const override;

 private:
  /// A name and its meaning in a second column: on the same line, or below a name that is too long.
  [[nodiscard]] std::string entry(const std::string& name, const std::string& meaning) const;

  std::size_t columns_;
};

}  // namespace headroom
