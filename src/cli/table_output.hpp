#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "measure/tables/printout.hpp"

namespace headroom {

/// The output format of tables. "json" prints the same as --json.
struct TableOutput {
  std::string format = "text";
  [[nodiscard]] bool is_json() const { return format == "json"; }
};
/// Adds --format (text, csv, md, latex or json), and --json, which equals --format json. `json_help` describes its
/// output.
void add_table_options(CLI::App& command, TableOutput& output, const std::string& json_help);

/// Whether a result file's `out` is standard output, which prints what --json prints. `out` is then cleared. Throws a
/// usage Error if --format asks for something else.
[[nodiscard]] bool take_standard_output(const CLI::App& command, std::string& out);

/// Prints to standard output; text is fitted to the width of the terminal (output_columns()).
void print_tables(const Printout& printout, const TableOutput& output);
/// The same for commands without --format.
void print_tables(const Printout& printout);
/// As text for `descriptor`. `has_format` says whether --format can print the columns that do not fit.
[[nodiscard]] std::string fitted_text(const Printout& printout, int descriptor, bool has_format = false);

/// Prints lines, each ended by a newline, wrapped to the width of the terminal.
void print_lines(const std::string& text);

}  // namespace headroom
