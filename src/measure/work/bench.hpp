#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "measure/results/result.hpp"
#include "measure/statistics/trials.hpp"
#include "measure/tables/printout.hpp"
#include "measure/work/asked_pass.hpp"
#include "pipelines/request.hpp"
#include "run/compile.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// How one configuration is timed.
struct BenchOptions {
  Protocol protocol;
  bool cold = false;        ///< also times passes with cold caches
  bool first_step = false;  ///< also times passes of new shapes up to their first end, with the weights loaded
  bool floors = false;      ///< also measures the floor of each stage of a request
};

/// Called in this order; each may be empty.
struct BenchObserver {
  std::function<void(const Compiled& compiled)> on_compiled = {};
  std::function<void(const TrialProgress& progress)> on_progress = {};
  std::function<void(const Session& session)> on_measured = {};
};

/// A file with one result, and the same as text.
struct BenchReport {
  ResultFile file;
  Printout text;
  std::vector<std::string> warnings;  ///< why nothing should be concluded from the times; empty if they are settled
};

/// Times one forward pass: the series "forward"; "cold", and those of the first step, if they are asked for.
[[nodiscard]] BenchReport measure_pass(const OpenedModel& model, Backend& backend, WeightStore& weights,
                                       const PassMaker& make, const SwitchSet& switches, const BenchOptions& options,
                                       const BenchObserver& observer = {});
/// Times whole requests: the series "image", "step", and those of the parts.
[[nodiscard]] BenchReport measure_requests(const Pipeline& pipeline, Backend& backend, WeightStore& weights,
                                           const RequestOptions& request, const BenchOptions& options,
                                           const BenchObserver& observer = {});

}  // namespace headroom
