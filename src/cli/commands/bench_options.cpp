#include "cli/commands/bench_options.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/text/nearest.hpp"

namespace headroom {
namespace {

enum BenchSubject : unsigned { kModel = 1, kModels = 2, kKernels = 4, kLoad = 8, kBodies = 16, kAttention = 32 };

/// An option that only some subjects of `bench` accept.
struct Use {
  unsigned subjects;     ///< subjects that accept it
  std::string_view who;  ///< the subjects in words
  std::vector<std::string> options;
};
const std::array<Use, 6>& uses() {
  static const std::array<Use, 6> kUses = {
      {{kModel | kModels,
        "a model and the suite `models`",
        {"--opt",
         "--auto-seconds",
         "--max-error",
         "--max-request-error",
         "--auto-refresh",
         "--baseline",
         "--random-weights",
         "--random-format",
         "--batch",
         "--token-rows",
         "--token-columns",
         "--reference-rows",
         "--reference-columns",
         "--text-tokens",
         "--height",
         "--width",
         "--pass",
         "--precision",
         "--first-step",
         "--floors",
         "--strict",
         "--lora",
         "--cache-schedule"}},
       {kModel | kModels | kAttention, "a model and the suites `models` and `attention`", {"--trials"}},
       {kAttention, "the suite `attention`", {"--tokens", "--heads", "--head-dim", "--causal", "--ranks"}},
       {kModel | kModels | kKernels | kBodies,
        "a model and the suites `models`, `kernels` and `bodies`",
        {"--cold", "--max-seconds"}},
       {kKernels | kBodies, "the suites `kernels` and `bodies`", {"--rounds"}},
       {kModels | kKernels | kBodies, "the suites `models`, `kernels` and `bodies`", {"--filter", "--list"}}}};
  return kUses;
}

BenchSubject subject_of(const std::string& what) {
  if (what == "models") return kModels;
  if (what == "load") return kLoad;
  if (what == "attention") return kAttention;
  if (what == "bodies") return kBodies;
  return what == "kernels" || what.empty() ? kKernels : kModel;  // --list alone lists the kernels too
}

/// A name that is similar to a suite's, and is no folder, was meant as the suite.
void check_subject(const std::string& what) {
  const std::vector<std::string> suites = {"kernels", "bodies", "models", "load", "attention"};
  std::error_code ignored;
  if (std::ranges::find(suites, what) != suites.end() || std::filesystem::is_directory(what, ignored)) return;
  if (const std::string meant = did_you_mean(what, suites); !meant.empty())
    fail_usage("no model and no suite '{}'{}", what, meant);
}

void check_auto_options(const SwitchArguments& switches) {
  if (switches.given_for_auto.empty() || switches.request().automatic) return;
  fail_usage("{} would change nothing: it is for --opt auto", switches.given_for_auto.front());
}

void check_comparison_options(const CLI::App& command) {
  const bool against = command.count("--against") > 0;
  const bool compare = command.count("--compare") > 0;
  const auto require = [&](const char* option, bool has, const char* needed) {
    if (command.count(option) > 0 && !has) fail_usage("{} needs {}", option, needed);
  };
  for (const char* option : {"--threshold", "--limit", "--force", "--save-verdict"})
    require(option, against || compare, "a comparison: give --compare or --against as well");
  for (const char* option : {"--markdown", "--junit", "--annotations"})
    require(option, against || compare || command.count("--budget") > 0,
            "a verdict: give --compare, --against or --budget as well");
  for (const char* option : {"--max-processes", "--save-base"})
    require(option, against, "another binary: give --against as well");
  require("--process-noise", compare, "times of an earlier run: give --compare as well");
}

}  // namespace

void check_bench_options(const CLI::App& command, const std::string& what, const SwitchArguments& switches) {
  if (what.empty() && command.count("--list") == 0)
    fail_usage(
        "MODEL is missing: a name from `headroom models`, the folder of a checkpoint, or a suite: kernels, bodies, "
        "models, load or attention");
  check_subject(what);
  const BenchSubject subject = subject_of(what);
  for (const Use& use : uses())
    for (const std::string& option : use.options)
      if (command.count(option) > 0 && (use.subjects & subject) == 0)
        fail_usage("{} would change nothing of `bench {}`: it is for {}", option, what.empty() ? "--list" : what,
                   use.who);
  check_auto_options(switches);
  check_comparison_options(command);
}

void check_suite_options(const CLI::App& command, const std::vector<ModelCase>& suite) {
  const auto check = [&](const CLI::Option& option, const ModelCase& benchmark) {
    if (option.count() > 0)
      fail_usage("{} is what makes the benchmark '{}': leave it out, or --filter takes benchmarks without it",
                 option.get_name(), benchmark.name());
  };
  for (const ModelCase& benchmark : suite)
    for (const std::string& argument : benchmark.arguments) {
      const CLI::Option& own = *command.get_option(argument.substr(0, argument.find('=')));
      check(own, benchmark);
      for (const CLI::Option* rival : own.get_excludes()) check(*rival, benchmark);
    }
}

}  // namespace headroom
