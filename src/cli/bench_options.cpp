#include "cli/bench_options.hpp"

#include <array>
#include <string_view>

#include "base/error.hpp"

namespace headroom {
namespace {

enum Subject : unsigned { kModel = 1, kModels = 2, kKernels = 4, kLoad = 8 };

struct Use {
  std::string_view option;
  unsigned subjects;     ///< that take it
  std::string_view who;  ///< the same in words
};
constexpr std::string_view kWithModel = "a model and the suite `models`";
constexpr std::string_view kTimed = "a model and the suites `models` and `kernels`";
constexpr std::string_view kNamed = "the suites `models` and `kernels`";
/// All others are for everything that `bench` measures.
constexpr std::array<Use, 20> kUses = {{{"--opt", kModel | kModels, kWithModel},
                                        {"--auto-seconds", kModel | kModels, kWithModel},
                                        {"--max-error", kModel | kModels, kWithModel},
                                        {"--auto-refresh", kModel | kModels, kWithModel},
                                        {"--baseline", kModel | kModels, kWithModel},
                                        {"--random-weights", kModel | kModels, kWithModel},
                                        {"--batch", kModel | kModels, kWithModel},
                                        {"--token-rows", kModel | kModels, kWithModel},
                                        {"--token-columns", kModel | kModels, kWithModel},
                                        {"--text-tokens", kModel | kModels, kWithModel},
                                        {"--height", kModel | kModels, kWithModel},
                                        {"--width", kModel | kModels, kWithModel},
                                        {"--trials", kModel | kModels, kWithModel},
                                        {"--precision", kModel | kModels, kWithModel},
                                        {"--first-step", kModel | kModels, kWithModel},
                                        {"--cold", kModel | kModels | kKernels, kTimed},
                                        {"--max-seconds", kModel | kModels | kKernels, kTimed},
                                        {"--turns", kKernels, "the suite `kernels`"},
                                        {"--filter", kModels | kKernels, kNamed},
                                        {"--list", kModels | kKernels, kNamed}}};

Subject subject_of(const std::string& what) {
  if (what == "models") return kModels;
  if (what == "load") return kLoad;
  return what == "kernels" || what.empty() ? kKernels : kModel;  // --list alone lists the kernels too
}

void check_comparison_options(const CLI::App& command) {
  const bool against = command.count("--against") > 0;
  const bool compare = command.count("--compare") > 0;
  const auto require = [&](const char* option, bool has, const char* needed) {
    if (command.count(option) > 0 && !has) fail_usage("{} needs {}", option, needed);
  };
  for (const char* option : {"--threshold", "--force", "--save-verdict"})
    require(option, against || compare, "a comparison: give --compare or --against as well");
  for (const char* option : {"--max-processes", "--save-base"})
    require(option, against, "another binary: give --against as well");
  require("--process-noise", compare, "times of an earlier run: give --compare as well");
}

}  // namespace

void check_bench_options(const CLI::App& command, const std::string& what) {
  const Subject subject = subject_of(what);
  for (const Use& use : kUses)
    if (command.count(std::string(use.option)) > 0 && (use.subjects & subject) == 0)
      fail_usage("{} would change nothing of `bench {}`: it is for {}", use.option, what.empty() ? "--list" : what,
                 use.who);
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
