#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "measure/gates/gate_report.hpp"
#include "measure/gates/quantities.hpp"

namespace headroom {

/// Adds --limit, the limits for quantities other than time.
CLI::Option* add_limit_option(CLI::App& command, std::string& limits);

/// The limit of the time: from --threshold, from `time` in --limit, or 5%. Throws a usage Error if both are given.
[[nodiscard]] double threshold_of(const std::string& threshold, const Limits& limits);

/// Destinations of a verdict in addition to the terminal.
struct VerdictOutputs {
  std::string markdown;
  std::string junit;
  bool annotations = false;
};

/// Adds --markdown, --junit and --annotations.
void add_verdict_outputs(CLI::App& command, VerdictOutputs& outputs);

/// Throws the Error that writing the files would throw, as far as it can be known in advance.
void check_verdict_outputs(const VerdictOutputs& outputs);

/// Writes the files, and annotations to `descriptor`.
void write_verdict(const VerdictOutputs& outputs, std::span<const GateReport> reports, int descriptor);

}  // namespace headroom
