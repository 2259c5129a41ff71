#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/failure.hpp"
#include "base/files/truncated_file.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/terminal.hpp"
#include "cli/all_commands.hpp"
#include "cli/option_names.hpp"
#include "cli/usage.hpp"
#include "kernels/core/simd_targets.hpp"
#include "measure/probes/machine.hpp"

namespace {

constexpr const char* kDescription =
    "headroom makes diffusion transformers run as fast as the hardware allows, and measures every optimization.\n"
    "The main command is `headroom ladder MODEL`.";

/// Restarts the program with a short OpenMP spin time, unless the user has set one. Threads of a team spin while
/// they wait for each other. GCC's OpenMP does so for milliseconds, which on a shared machine makes a step 50 times
/// as long. It reads the setting only when the process starts, and has no call for it.
void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "20000", 1);
  execv("/proc/self/exe", argv);  // if this fails, the program continues as it was started
}

/// Occupies the descriptor of each closed standard stream. Otherwise a file opened later would get its number and
/// receive the printed output. Writing to it still fails.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
}

/// Prints one line on stderr. A failure is ignored.
void tell(std::string_view sentence) { headroom::Log().info("headroom: {}", sentence); }

/// Whether the arguments contain --quiet, before they are parsed.
bool is_quiet(const std::vector<std::string>& arguments) {
  return std::ranges::any_of(arguments, [](const std::string& each) { return each == "-q" || each == "--quiet"; });
}

headroom::ExitCode tell_usage(std::string_view sentence, const CLI::App& app) {
  tell(sentence);
  headroom::Log().info("{}", headroom::usage_hint(app));
  return headroom::ExitCode::kUsage;
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "headroom");
  app.formatter(std::make_shared<headroom::UsageFormatter>(
      headroom::output_columns(STDOUT_FILENO)));  // also for the commands added below
  app.set_version_flag("--version", [] {
    const headroom::Machine machine = headroom::describe_machine();
    return fmt::format("headroom {} ({}), CPU kernels for {}", machine.build->version, machine.build->git_revision,
                       fmt::join(headroom::compiled_vector_units(), ", "));
  });
  app.require_subcommand(1);
  app.footer("Exit codes: 0 ok, 1 error, 2 usage, 3 regression found or budget missed, 4 inconclusive.");
  headroom::ExitCode exit_code = headroom::ExitCode::kOk;
  headroom::add_all_commands(app, exit_code);
  headroom::CurrentArguments current =
      headroom::with_current_names(headroom::with_empty_values({argv + 1, argv + argc}));
  const headroom::Log log(is_quiet(current.arguments));
  for (const std::string& note : current.notes) log.info("{}", note);
  try {
    // in the order that CLI11 expects
    app.parse(std::vector<std::string>(current.arguments.rbegin(), current.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version and report --schema
      std::ostringstream text;
      app.exit(error, text);
      headroom::print_out("{}", text.str());
      return static_cast<int>(headroom::ExitCode::kOk);
    }
    return static_cast<int>(tell_usage(headroom::explain(app, error, current.arguments), app));
  } catch (const headroom::Error& error) {
    if (error.code() != headroom::ExitCode::kUsage) throw;
    return static_cast<int>(tell_usage(error.what(), app));
  }
  return static_cast<int>(exit_code);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  limit_spinning(argv);
  try {
    headroom::take_signals_on_own_thread();
    headroom::survive_truncated_files();
    return run(argc, argv);
  } catch (const headroom::Interrupted& interrupted) {
    headroom::end_by_signal(interrupted.signal);  // as if the signal had ended it at once
  } catch (const headroom::Error& error) {
    tell(error.what());
    return static_cast<int>(error.code());
  } catch (const std::filesystem::filesystem_error& error) {  // not a bug, but the state of the file system
    tell(fmt::format("cannot read {}: {}", error.path1().native(), error.code().message()));
  } catch (const std::exception& error) {
    tell(headroom::sentence_of(error));
  }
  return static_cast<int>(headroom::ExitCode::kError);
}
