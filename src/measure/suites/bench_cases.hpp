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

/// The common part of the suites of small problems: `kernels` and `bodies`.
namespace headroom {

struct KernelBenchOptions {
  std::string filter;      ///< a regular expression (POSIX, extended) that must match part of a name; empty selects all
  double max_seconds = 5;  ///< for each case
  bool cold = false;       ///< times each case with cold caches as well
  /// With 2 or more, each case alternates this many rounds with the reference work of its floor, half a dozen launches
  /// of each per round. Both then see the same variations of a shared machine.
  int rounds = 1;
};

/// Progress, reported before each case.
struct KernelBenchProgress {
  std::string name;
  std::size_t done = 0;
  std::size_t total = 0;
};
using KernelBenchObserver = std::function<void(const KernelBenchProgress&)>;
/// Receives each case that is left out, and why.
using KernelBenchSkips = std::function<void(std::string_view name, std::string_view reason)>;

/// A case that is ready to be timed.
struct ReadyCase {
  std::shared_ptr<Session> session;  ///< runs it once; holds everything that it needs
  Floor floor;
  Result result;  ///< the facts known in advance: without times, floor and plan
};

struct SuiteCase {
  std::string name;
  std::function<ReadyCase(MachineRates& rates)> prepare;
};

/// Times each case that the filter selects, and a copy of MachineRates::kLargestCopy bytes ("copy"). Each case has
/// one result with its plan, its floor (measure/probes/floor.hpp) and the series "launch" (and "cold"). A case that
/// cannot be prepared here is left out and reported to `on_skip` with the reason. With several rounds, `process` holds
/// the round of each trial, and a series "floor" has the same numbers. Throws a usage Error, in which a case is called
/// `what`, for an invalid filter or one that selects nothing.
[[nodiscard]] ResultFile bench_cases(Backend& backend, std::string_view what, std::vector<SuiteCase> cases,
                                     const KernelBenchOptions& options, const KernelBenchObserver& on_progress = {},
                                     const KernelBenchSkips& on_skip = {});

/// Operands in the form used in results: "bf16[4, 8] channels_last".
[[nodiscard]] nlohmann::json operand_json(const std::vector<TensorType>& types);

}  // namespace headroom
