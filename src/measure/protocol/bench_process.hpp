#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "measure/protocol/subprocess.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// Runs a benchmark once in a process of its own.
using BenchRun = std::function<ResultFile()>;

/// Parses the result file that a program has printed. Throws Error with its stderr output if it was killed, ended
/// with a nonzero code, or printed something else. If the program is this one, its error is thrown again with its
/// exit code.
[[nodiscard]] ResultFile read_bench_outcome(const std::vector<std::string>& command, const ProcessOutcome& outcome);

/// Runs a program that prints a result file: `command` holds the program and its arguments.
[[nodiscard]] ResultFile run_bench_process(const std::vector<std::string>& command);

/// Runs a benchmark `processes` times, one after another, and merges the results: the trials of run i become those of
/// process i. After each run, `on_progress` receives the number of runs done.
[[nodiscard]] ResultFile run_processes(const BenchRun& run, int processes,
                                       const std::function<void(int done)>& on_progress = {});

/// Merges runs of one build into one file: the trials of files[i] become those of process i. Throws Error if the
/// files do not hold the same results, by id, and the same series.
[[nodiscard]] ResultFile merge_processes(std::span<const ResultFile> files);

/// Joins results of several benchmarks of a suite in one file; `names` tell them apart as prefixes of ids and names:
/// "batch 20".
[[nodiscard]] ResultFile join_benchmarks(std::span<const ResultFile> files, std::span<const std::string> names);

}  // namespace headroom
