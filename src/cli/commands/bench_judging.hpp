#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/device.hpp"
#include "base/error.hpp"
#include "cli/commands/verdict_outputs.hpp"
#include "measure/statistics/trials.hpp"
#include "pipelines/model_suite.hpp"

namespace headroom {

/// Options of `bench` beyond a single measurement: separate processes, verdicts, and other output formats.
struct BenchJudging {
  std::string precision;
  std::string compare;    ///< result file of the base
  std::string against;    ///< another headroom binary
  std::string threshold;  ///< empty: 5%
  std::string limits;     ///< for quantities other than time
  std::string budget;
  std::string process_noise;
  std::string format;
  std::string save_base;
  std::string save_verdict;
  VerdictOutputs outputs;
  int processes = 0;      ///< 0: one, or 8 pairs with --against
  int max_processes = 0;  ///< 0: four times as many
  bool force = false;
};
void add_judging_options(CLI::App& command, BenchJudging& judging);

/// Applies --precision to the protocol.
void apply_precision(const BenchJudging& judging, Protocol& protocol);

/// Whether the benchmark runs in separate processes, which this one starts and judges.
[[nodiscard]] bool is_judge(const BenchJudging& judging);

/// Runs `bench` of this program, and of the other one with --against, in separate processes on one device. They get
/// the options of `command` that concern the measurement. `suite` gives the arguments of each benchmark in place of
/// MODEL; it is empty to run MODEL itself. Afterwards saves, prints, compares, and checks the budget.
[[nodiscard]] ExitCode judge_bench(const CLI::App& command, const BenchJudging& judging, const Device& device,
                                   const std::vector<ModelCase>& suite);

}  // namespace headroom
