#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "measure/probes/floor.hpp"
#include "measure/results/result.hpp"
#include "run/session/session.hpp"

/// What suites of small problems share: `kernels` and `bodies`.
namespace headroom {

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
using KernelBenchObserver = std::function<void(const KernelBenchProgress&)>;
/// Told of each case that is left out, and why.
using KernelBenchSkips = std::function<void(std::string_view name, std::string_view reason)>;

/// A case that can be timed now.
struct ReadyCase {
  std::shared_ptr<Session> session;  ///< runs it once; all that it needs is held by the pointer
  Floor floor;
  Result result;  ///< what is known of it before: no times, floor and plan
};

struct SuiteCase {
  std::string name;
  std::function<ReadyCase(MachineRates& rates)> prepare;
};

/// Times each case that the filter takes, and a copy of MachineRates::kLargestCopy bytes ("copy"). One result a case,
/// with its plan, its floor (measure/probes/floor.hpp) and the series "launch" (and "cold"); a case that cannot be prepared
/// here is left out and told through `on_skip` with the reason. What took turns has in `process` the number of each
/// trial's turn, and a series "floor" with the same numbers. Throws a usage Error for a filter that is none or that
/// takes nothing, which calls a case `what`.
[[nodiscard]] ResultFile bench_cases(Backend& backend, std::string_view what, std::vector<SuiteCase> cases,
                                     const KernelBenchOptions& options, const KernelBenchObserver& on_progress = {},
                                     const KernelBenchSkips& on_skip = {});

/// Operands as results tell them: "bf16[4, 8] channels_last".
[[nodiscard]] nlohmann::json operand_json(const std::vector<TensorType>& types);

}  // namespace headroom
