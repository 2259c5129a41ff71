#pragma once

#include <CLI/CLI.hpp>

#include "base/error.hpp"

namespace headroom {

/// Each function adds one command with its options, an example in its help, and a callback that runs it.
void add_models_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_forward_command(CLI::App& app);
/// A stream that misses its budget sets `exit_code`, which must outlive the parsing.
void add_stream_command(CLI::App& app, ExitCode& exit_code);
void add_ladder_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_convert_command(CLI::App& app);
void add_tokens_command(CLI::App& app);
void add_train_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
/// A comparison that ends in a regression or inconclusively sets `exit_code`, which must outlive the parsing.
void add_bench_command(CLI::App& app, ExitCode& exit_code);
void add_compare_command(CLI::App& app, ExitCode& exit_code);
void add_profile_command(CLI::App& app);
void add_sweep_command(CLI::App& app);
void add_history_command(CLI::App& app);
void add_report_command(CLI::App& app);
/// Something that costs over 5% sets `exit_code`, which must outlive the parsing.
void add_doctor_command(CLI::App& app, ExitCode& exit_code);
/// A kernel that differs from the interpreter sets `exit_code`, which must outlive the parsing.
void add_conformance_command(CLI::App& app, ExitCode& exit_code);

}  // namespace headroom
