#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "measure/machine.hpp"

namespace {

constexpr const char* kDescription =
    "headroom makes diffusion transformers run as fast as the hardware allows, and measures every optimization.\n"
    "The main command is `headroom ladder MODEL`.";

/// Starts the program again with a short spin where nobody has chosen one. Threads of a team spin when they wait for
/// each other; GCC's OpenMP does so for milliseconds, and on a machine that others use too a step then takes 50 times
/// as long. It reads this setting when the process begins and offers no call for it.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "20000", 1);
  execv("/proc/self/exe", argv);  // where that fails, the program runs as it was started
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "headroom");
  app.set_version_flag("--version", [] {
    const headroom::Machine machine = headroom::describe_machine();
    return fmt::format("headroom {} ({})", machine.build->version, machine.build->git_revision);
  });
  app.require_subcommand(1);
  app.footer("Exit codes: 0 ok, 1 error, 2 usage, 3 regression found or budget missed, 4 inconclusive.");
  headroom::ExitCode exit_code = headroom::ExitCode::kOk;
  headroom::add_models_command(app);
  headroom::add_run_command(app);
  headroom::add_forward_command(app);
  headroom::add_bench_command(app, exit_code);
  headroom::add_ladder_command(app);
  headroom::add_plan_command(app);
  headroom::add_convert_command(app);
  headroom::add_profile_command(app);
  headroom::add_sweep_command(app);
  headroom::add_compare_command(app, exit_code);
  headroom::add_history_command(app);
  headroom::add_report_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    const std::vector<std::string> unknown = app.remaining();
    const bool no_command = app.get_subcommands().empty() && !unknown.empty();
    fmt::print(stderr, "headroom: {}\nRun `headroom --help` or `headroom COMMAND --help` for what is expected.\n",
               no_command ? fmt::format("unknown command '{}'", unknown.front()) : error.what());
    return static_cast<int>(headroom::ExitCode::kUsage);
  }
  return static_cast<int>(exit_code);
}

}  // namespace

int main(int argc, char** argv) {
  limit_spinning(argv);
  try {
    return run(argc, argv);
  } catch (const headroom::Error& error) {
    fmt::print(stderr, "headroom: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "headroom: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "headroom: internal error: {}\n", error.what());
  }
  return static_cast<int>(headroom::ExitCode::kError);
}
