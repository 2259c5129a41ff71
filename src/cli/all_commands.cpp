#include "cli/all_commands.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "cli/commands/commands.hpp"

namespace headroom {
namespace {

/// Options for which an empty text has a meaning: prompts, lists that may be empty, and a filter that matches all.
constexpr std::array<std::string_view, 7> kMayBeEmpty = {"--prompt", "--prompt-2", "--negative-prompt", "--opt",
                                                         "--labels", "--format",   "--filter"};

bool takes_value(const CLI::Option& option) { return option.nonpositional() && option.get_items_expected_max() > 0; }

/// Refuses an empty text, which an unset shell variable leaves and which would look like an option that was not
/// given.
void refuse_empty_value(CLI::Option& option) {
  static const CLI::Validator kIsNotEmpty(
      [](const std::string& text) { return text.empty() ? std::string("the value is empty") : std::string(); }, "");
  const bool is_number = option.get_type_name().find("INT in") != std::string::npos;  // the type name says more
  if (!is_number && std::ranges::find(kMayBeEmpty, option.get_name()) == kMayBeEmpty.end()) option.check(kIsNotEmpty);
}

}  // namespace

void add_all_commands(CLI::App& app, ExitCode& exit_code) {
  add_models_command(app);
  add_inspect_command(app);
  add_run_command(app);
  add_stream_command(app, exit_code);
  add_forward_command(app);
  add_bench_command(app, exit_code);
  add_ladder_command(app);
  add_plan_command(app);
  add_convert_command(app);
  add_tokens_command(app);
  add_train_command(app);
  add_calibrate_command(app);
  add_profile_command(app);
  add_sweep_command(app);
  add_compare_command(app, exit_code);
  add_history_command(app);
  add_report_command(app);
  add_doctor_command(app, exit_code);
  add_conformance_command(app, exit_code);
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options()) {
      if (!takes_value(*option)) continue;
      option->allow_extra_args(false);
      refuse_empty_value(*option);
    }
}

}  // namespace headroom
