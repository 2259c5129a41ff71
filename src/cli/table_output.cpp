#include "cli/table_output.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "base/output.hpp"
#include "base/terminal.hpp"
#include "cli/out_file.hpp"

namespace headroom {

void add_table_options(CLI::App& command, TableOutput& output, const std::string& json_help) {
  CLI::Option* const json = command.add_flag_callback(
      "--json", [&output] { output.format = "json"; }, json_help + ": --format json");
  command.add_option("--format", output.format, "output format: text, csv, md, latex or json")
      ->check(CLI::IsMember({"text", "csv", "md", "markdown", "latex", "json"}))
      ->type_name("FORMAT")
      ->excludes(json)
      ->capture_default_str();
}

bool take_standard_output(const CLI::App& command, std::string& out) {
  if (!is_standard_output(out)) return false;
  if (command.count("--format") > 0)
    if (const auto format = command["--format"]->as<std::string>(); format != "json")
      fail_usage("--out - prints the JSON of the result file, and --format {} something else: give one", format);
  out.clear();
  return true;
}

std::string fitted_text(const Printout& printout, int descriptor, bool has_format) {
  return printout.to_string(TableFormat::kText, output_columns(descriptor),
                            has_format ? "--format csv has all" : "a wider terminal or COLUMNS=250 shows all");
}

void print_tables(const Printout& printout, const TableOutput& output) {
  const std::optional<TableFormat> format = parse_table_format(output.format);
  HR_CHECK(format.has_value());
  write_output(STDOUT_FILENO, *format == TableFormat::kText ? fitted_text(printout, STDOUT_FILENO, true)
                                                            : printout.to_string(*format));
}

void print_tables(const Printout& printout) { write_output(STDOUT_FILENO, fitted_text(printout, STDOUT_FILENO)); }

void print_lines(const std::string& text) {
  write_output(STDOUT_FILENO, wrap_text(text, output_columns(STDOUT_FILENO)));
}

}  // namespace headroom
