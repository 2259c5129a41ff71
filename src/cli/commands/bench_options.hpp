#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands/auto.hpp"
#include "pipelines/model_suite.hpp"

namespace headroom {

/// Throws a usage Error for a slip in the name of a suite, and for an option of `bench` that was given and would change
/// nothing: one that `what` (a suite or a model) does not take, one for `auto` where it is not asked for, or one about a comparison
/// where nothing is compared.
void check_bench_options(const CLI::App& command, const std::string& what, const SwitchArguments& switches);

/// Throws a usage Error for an option that was given and that a benchmark of the suite sets itself.
void check_suite_options(const CLI::App& command, const std::vector<ModelCase>& suite);

}  // namespace headroom
