#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/output.hpp"
#include "base/quantity.hpp"
#include "cli/commands.hpp"
#include "cli/output_name.hpp"
#include "cli/table_output.hpp"
#include "measure/comparison.hpp"

namespace headroom {
namespace {

struct CompareArguments {
  std::string base;
  std::string changed;
  std::string threshold = "5%";
  std::string process_noise;
  std::string series;
  std::string save;
  bool force = false;
  TableOutput output;
};

ExitCode compare(const CompareArguments& arguments) {
  ComparisonOptions options{.rule = {.threshold = parse_share(arguments.threshold, "--threshold")},
                            .paired = false,
                            .force = arguments.force,
                            .process_noise = {},
                            .series = arguments.series};
  if (!arguments.process_noise.empty()) options.process_noise = parse_share(arguments.process_noise, "--process-noise");
  if (!arguments.save.empty()) check_writable(arguments.save);
  const Comparison comparison = compare_results(read_results(arguments.base), read_results(arguments.changed), options);
  if (!arguments.save.empty()) write_json(arguments.save, to_json(comparison));
  if (arguments.output.is_json())
    print_out("{}\n", dump_json(to_json(comparison), 2));
  else
    print_tables(to_table(comparison), arguments.output);
  return exit_code_of(comparison);
}

}  // namespace

void add_compare_command(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand("compare", "two result files: what is slower, what faster, how sure that is");
  const auto arguments = std::make_shared<CompareArguments>();
  command->add_option("BASE", arguments->base, "result file of the base")->required()->type_name("FILE");
  command->add_option("NEW", arguments->changed, "result file of what is to be judged")->required()->type_name("FILE");
  command->add_option("--threshold", arguments->threshold, "the least slowdown that is a regression")
      ->type_name("SHARE")
      ->capture_default_str();
  command
      ->add_option("--process-noise", arguments->process_noise,
                   "where each file has one process: how much processes of one build differ (standard deviation)")
      ->type_name("SHARE");
  command
      ->add_option("--series", arguments->series, "what to compare: a series by name, or all; unless given the first")
      ->type_name("NAME");
  command->add_flag("--force", arguments->force, "compare across machines, builds and configurations, and say so");
  command->add_option("--save", arguments->save, "file for the comparison (schema headroom.comparison/1)")
      ->check(written_as({".json"}))
      ->type_name("FILE");
  add_table_options(*command, arguments->output, "print that instead of the table");
  command->footer(
      "Example: headroom compare main.json branch.json --threshold 3%\n"
      "Exit codes: 0 nothing is slower, 3 something regressed, 4 inconclusive.");
  command->callback([arguments, &exit_code] { exit_code = compare(*arguments); });
}

}  // namespace headroom
