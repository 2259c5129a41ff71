#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
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

/// Help that begins with usage_of(), in lines of at most `columns`. Commands in examples that are longer go on behind a
/// backslash, as a shell takes them.
class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::size_t columns) : columns_(columns) {}
  std::string make_description(const CLI::App* command) const override;
  std::string make_usage(const CLI::App* command, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* command) const override;

 private:
  /// A name, and what it means in a column of its own: beside it, or below a name that is too long for that.
  [[nodiscard]] std::string entry(const std::string& name, const std::string& meaning) const;

  std::size_t columns_;
};

}  // namespace headroom
