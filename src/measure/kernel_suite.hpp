#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "kernels/kernel.hpp"
#include "measure/op_run.hpp"
#include "measure/result.hpp"

namespace headroom {

/// One problem of the suite `kernels`.
struct KernelCase {
  std::string name;  ///< "linear bf16 5440x768x192": op, dtype and the sizes that matter
  OpSpec spec;
  OpForm form = OpForm::kWhole;
};

/// The ops of diffusion transformers; of linear with GELU, attention and norm with modulation also the plain ops in
/// their place. Products and attention at the shapes of a small model at batch 20 and of a
/// large one; everything that memory bounds on tensors of 384 MiB, which no last-level cache holds.
[[nodiscard]] std::vector<KernelCase> list_kernel_cases();

struct KernelBenchOptions {
  std::string filter;      ///< a regular expression (POSIX, extended) that a name must match somewhere; empty takes all
  double max_seconds = 5;  ///< for each case
  bool cold = false;       ///< times each case with empty caches as well
  /// With 2 or more, each case takes so many turns with what its floor is reckoned from, half a dozen launches of each
  /// in a turn, so that both meet the same moods of a shared machine.
  int turns = 1;
};

/// Told before each case.
struct KernelBenchProgress {
  std::string name;
  std::size_t done = 0;
  std::size_t total = 0;
};

/// Times every case of the suite that the filter takes, and a copy of equally large tensors ("copy", bytes read once and
/// written once). One result a case, with its plan, its floor (measure/floor.hpp) and the series "launch" (and "cold");
/// a case that no kernel runs here is left out and told through `on_skip` with the reason. What took turns has in
/// `process` the number of each trial's turn, and a series "floor" with the same numbers. Throws a usage Error for a
/// filter that is none or that takes nothing.
[[nodiscard]] ResultFile bench_kernels(
    Backend& backend, const KernelBenchOptions& options,
    const std::function<void(const KernelBenchProgress&)>& on_progress = {},
    const std::function<void(std::string_view name, std::string_view reason)>& on_skip = {});

/// What a result file of the suite holds as a table: time with interval, GFLOP/s or GB/s, the floor and how many times
/// that the time is; of what took turns with it, the median over turns.
[[nodiscard]] std::string to_kernel_table(const ResultFile& file);

}  // namespace headroom
