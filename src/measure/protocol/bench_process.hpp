#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "measure/protocol/subprocess.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// One run of a benchmark in a process of its own.
using BenchRun = std::function<ResultFile()>;

/// The result file that a program has printed. Throws Error with what it wrote to stderr where it was killed, ended
/// with another code than 0, or printed something else: the program's own error again, with its exit code, where it is
/// this one.
[[nodiscard]] ResultFile read_bench_outcome(const std::vector<std::string>& command, const ProcessOutcome& outcome);

/// Runs a program that prints a result file: `command` is the program and its arguments.
[[nodiscard]] ResultFile run_bench_process(const std::vector<std::string>& command);

/// Runs it so many times, one after the other, as one file: the trials of run i become those of process i.
/// `on_progress` is told after each how many are done.
[[nodiscard]] ResultFile run_processes(const BenchRun& run, int processes,
                                       const std::function<void(int done)>& on_progress = {});

/// Runs of one build as one file: the trials of files[i] become those of process i. Throws Error where the files do not
/// hold the same results, by id, and the same series.
[[nodiscard]] ResultFile merge_processes(std::span<const ResultFile> files);

/// Results of several benchmarks of a suite in one file; `names` say which, and stand before ids and names: "batch 20".
[[nodiscard]] ResultFile join_benchmarks(std::span<const ResultFile> files, std::span<const std::string> names);

}  // namespace headroom
