#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/files/file.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/text/json.hpp"
#include "base/text/quantity.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/verdict_outputs.hpp"
#include "cli/output_name.hpp"
#include "cli/table_output.hpp"
#include "measure/gates/budget_file.hpp"
#include "measure/results/import.hpp"
#include "measure/results/result_folder.hpp"
#include "measure/statistics/comparison.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

struct CompareArguments {
  std::vector<std::string> results;
  std::string budget;
  std::string threshold;
  std::string limits;
  std::string process_noise;
  std::string series;
  std::string save;
  VerdictOutputs outputs;
  bool force = false;
  TableOutput output;
};

/// A result file, or all of a folder, named by their relative paths.
std::vector<NamedResults> read_results_of(const std::string& path, const Log& log) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {NamedResults(path, read_measurements(path))};
  std::vector<std::string> left_out;
  std::vector<NamedResults> files = read_result_folder(path, left_out);
  for (NamedResults& file : files) file.first = fs::path(file.first).lexically_relative(path).string();
  for (const std::string& reason : left_out) log.warning("left out: {}", reason);
  return files;
}

void print_verdict(const CompareArguments& arguments, const GateReport& report, const nlohmann::json& as_json) {
  if (arguments.output.is_json())
    print_out("{}\n", dump_json(as_json, 2));
  else
    print_tables(gate_table(report), arguments.output);
  // Output for other programs has stdout to itself.
  write_verdict(arguments.outputs, {&report, 1}, arguments.output.format == "text" ? STDOUT_FILENO : STDERR_FILENO);
}

ComparisonOptions options_of(const CompareArguments& arguments) {
  ComparisonOptions options{
      .force = arguments.force, .limits = parse_limits(arguments.limits, "--limit"), .series = arguments.series};
  options.rule.threshold = threshold_of(arguments.threshold, options.limits);
  if (!arguments.process_noise.empty()) options.process_noise = parse_share(arguments.process_noise, "--process-noise");
  return options;
}

ExitCode compare_two(const CompareArguments& arguments) {
  const std::string &base = arguments.results[0], &changed = arguments.results[1];
  const ComparisonOptions options = options_of(arguments);
  const Log log;
  Comparison comparison = compare_results(read_results_of(base, log), read_results_of(changed, log), options);
  std::error_code ignored;
  if (fs::equivalent(base, changed, ignored))
    comparison.notes = {
        fmt::format("{} and {} are the same, so nothing can differ: compare with another run", base, changed)};
  const nlohmann::json as_json = to_json(comparison);
  if (!arguments.save.empty()) write_json(arguments.save, as_json);
  print_verdict(arguments, report_of(comparison), as_json);
  return exit_code_of(comparison);
}

ExitCode check_budget_file(const CompareArguments& arguments) {
  const std::vector<BudgetRow> rows = read_budget_file(arguments.budget);
  const Log log;
  std::vector<NamedResults> files;
  for (const std::string& path : arguments.results)
    for (NamedResults& file : read_results_of(path, log)) files.push_back(std::move(file));
  const GateReport report = check_budget(rows, files);
  print_verdict(arguments, report, gate_json(report));
  return exit_code_of(report);
}

ExitCode compare(const CompareArguments& arguments) {
  if (arguments.budget.empty() && arguments.results.size() != 2)
    fail_usage("compare takes two files or folders, BASE and NEW, and {} given; any number goes with --budget",
               arguments.results.size() == 1 ? "one was" : fmt::format("{} were", arguments.results.size()));
  if (!arguments.save.empty()) check_writable(arguments.save);
  check_verdict_outputs(arguments.outputs);
  return arguments.budget.empty() ? compare_two(arguments) : check_budget_file(arguments);
}

}  // namespace

void add_compare_command(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand(
      "compare",
      "compare two result files: what is slower, larger or worse, and how certain; or results with a budget");
  const auto arguments = std::make_shared<CompareArguments>();
  command
      ->add_option("RESULTS", arguments->results,
                   "BASE and NEW, result files or folders of result files; with --budget any number of them")
      ->required()
      ->type_name("FILE");
  CLI::Option* budget = command->add_option("--budget", arguments->budget, "compare the results with this budget file")
                            ->type_name("FILE");
  std::vector<CLI::Option*> of_two;  // options for two files, which have no effect with a budget
  of_two.push_back(command
                       ->add_option("--threshold", arguments->threshold,
                                    "smallest slowdown that counts as a regression; default: 5%")
                       ->type_name("SHARE"));
  of_two.push_back(add_limit_option(*command, arguments->limits));
  of_two.push_back(
      command
          ->add_option("--process-noise", arguments->process_noise,
                       "for files with one process each: standard deviation between processes of one build")
          ->type_name("SHARE"));
  of_two.push_back(
      command->add_option("--series", arguments->series, "name of the series to compare, or all; default: the first")
          ->type_name("NAME"));
  of_two.push_back(command->add_flag("--force", arguments->force,
                                     "compare even if machine, build or configuration differ; the output says so"));
  of_two.push_back(
      command
          ->add_option("--out", arguments->save, "file for the comparison (schema headroom.comparison/1); - for --json")
          ->check(written_as({".json"}, Dash::kTaken))
          ->type_name("FILE"));
  for (CLI::Option* option : of_two) budget->excludes(option);
  add_table_options(*command, arguments->output, "print JSON instead of the table");
  add_verdict_outputs(*command, arguments->outputs);
  command->footer(
      "Example: headroom compare main.json branch.json --limit memory=5%,psnr=0.5dB\n"
      "         headroom compare results --budget budget.json --junit budget.xml\n"
      "Exit codes: 0 nothing is worse, 3 something regressed or missed its budget, 4 inconclusive.");
  command->callback([arguments, command, &exit_code] {
    if (take_standard_output(*command, arguments->save)) arguments->output.format = "json";
    exit_code = compare(*arguments);
  });
}

}  // namespace headroom
