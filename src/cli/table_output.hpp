#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "measure/tables/printout.hpp"

namespace headroom {

/// How a command prints its tables. "json" prints what --json does.
struct TableOutput {
  std::string format = "text";
  [[nodiscard]] bool is_json() const { return format == "json"; }
};
/// Adds --format (text, csv, md, latex or json), and --json, which is --format json and `json_help` says what it prints.
void add_table_options(CLI::App& command, TableOutput& output, const std::string& json_help);

/// Prints to standard output, as text in lines that fit the terminal (output_columns()).
void print_tables(const Printout& printout, const TableOutput& output);
/// The same of commands without --format.
void print_tables(const Printout& printout);
/// As text for `descriptor`; `has_format` says whether --format has the columns that do not fit.
[[nodiscard]] std::string fitted_text(const Printout& printout, int descriptor, bool has_format = false);

/// Prints lines, each ended by a newline, that fit the terminal.
void print_lines(const std::string& text);

}  // namespace headroom
