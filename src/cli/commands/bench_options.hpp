#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands/auto.hpp"
#include "pipelines/model_suite.hpp"

namespace headroom {

/// Throws a usage Error for a misspelled suite name, and for a given option of `bench` without effect. Such an
/// option is not for `what` (a suite or a model), is for `auto` without `auto`, or is about a comparison when
/// nothing is compared.
void check_bench_options(const CLI::App& command, const std::string& what, const SwitchArguments& switches);

/// Throws a usage Error for a given option that a benchmark of the suite sets itself.
void check_suite_options(const CLI::App& command, const std::vector<ModelCase>& suite);

}  // namespace headroom
