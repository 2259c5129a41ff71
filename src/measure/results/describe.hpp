#pragma once

#include <map>
#include <span>
#include <string>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "measure/results/result.hpp"
#include "pipelines/pipeline.hpp"
#include "run/compile.hpp"
#include "run/forward_pass.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

class Generator;

/// Functions that create result files and results, and that fill in how a compiled program ran.

/// A result file of this machine and the current time, without results.
[[nodiscard]] ResultFile begin_result_file();
/// Throws Error if this machine's clock shows a date that result files do not accept; call it before measuring.
void check_clock();
/// A result of this build, with nothing measured yet; its id is its name.
[[nodiscard]] Result begin_result(std::string name, Subject subject, Configuration configuration);
/// The same for a compiled program, named by its switches; tagged if the weights are random.
[[nodiscard]] Result begin_result(const SwitchSet& switches, Subject subject, const Compiled& compiled,
                                  const Checkpoint& checkpoint, const Backend& backend);
/// Adds the session's memory use, the reasons why `graph` could not replay it as a whole, and its plan (to `plans`).
/// Call it after the session has run.
void add_plan_and_memory(Result& result, std::map<std::string, PlanRecord>& plans, const Session& session,
                         const WeightStore& weights, const Backend& backend);
/// The same for a generator that has made a generation: memory and records of all its stages, and the plan of the
/// denoise loop.
void add_plan_and_memory(Result& result, std::map<std::string, PlanRecord>& plans, const Generator& generator,
                         const WeightStore& weights, const Backend& backend);

/// The switches that were asked for, applied and declined.
[[nodiscard]] Configuration describe_configuration(const SwitchSet& asked, const Compiled& compiled,
                                                   const Backend& backend);
/// The work of a pipeline's request as it was asked for, independent of switches.
[[nodiscard]] Subject describe_request(const Pipeline& pipeline, RequestOptions options);
/// The work of one forward pass.
[[nodiscard]] Subject describe_pass(const ForwardPass& pass);
/// The result of one op measured by itself, without series.
[[nodiscard]] Result describe_kernel(const Backend& backend, const std::string& name, std::string op,
                                     nlohmann::json request);
/// The kernels chosen and rejected, with costs.
[[nodiscard]] PlanRecord describe_plan(const Program& program);
/// Bytes by category, over all sessions that are in memory at the same time. Peak counts bytes in use at once;
/// reserved also counts bytes that allocators hold without using them.
[[nodiscard]] MemoryReport describe_memory(std::span<const Session* const> sessions, const WeightStore& weights,
                                           const Backend& backend);
/// The id of a plan, computed from its content, so that results with equal plans share one.
[[nodiscard]] std::string plan_id(const PlanRecord& plan);

}  // namespace headroom
