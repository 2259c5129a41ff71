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

/// Result files and results are begun here, and the parts of a result that describe how a compiled program ran.

/// A file of this machine at this time, without results.
[[nodiscard]] ResultFile begin_result_file();
/// Throws Error where this machine's clock tells a time that no result file may be of: for before measuring.
void check_clock();
/// A result of this build, with nothing measured yet; its id is its name.
[[nodiscard]] Result begin_result(std::string name, Subject subject, Configuration configuration);
/// The same of a compiled program, named by its switches; tagged where the weights are random.
[[nodiscard]] Result begin_result(const SwitchSet& switches, Subject subject, const Compiled& compiled,
                                  const Checkpoint& checkpoint, const Backend& backend);
/// Adds the session's memory and what kept `graph` from replaying it as a whole, which are to be asked for after it has
/// run, and its plan, which goes to `plans`.
void add_plan_and_memory(Result& result, std::map<std::string, PlanRecord>& plans, const Session& session,
                         const WeightStore& weights, const Backend& backend);
/// The same of a generator that has made a generation: the memory and the records of all its stages, and the plan of
/// the denoise loop.
void add_plan_and_memory(Result& result, std::map<std::string, PlanRecord>& plans, const Generator& generator,
                         const WeightStore& weights, const Backend& backend);

/// What was asked, applied and declined.
[[nodiscard]] Configuration describe_configuration(const SwitchSet& asked, const Compiled& compiled,
                                                   const Backend& backend);
/// The work of a pipeline's request: what is asked for, whatever the switches make of it.
[[nodiscard]] Subject describe_request(const Pipeline& pipeline, RequestOptions options);
/// The work of one forward pass.
[[nodiscard]] Subject describe_pass(const ForwardPass& pass);
/// The result of an op measured by itself, without series.
[[nodiscard]] Result describe_kernel(const Backend& backend, const std::string& name, std::string op,
                                     nlohmann::json request);
/// Kernels chosen and rejected, with costs.
[[nodiscard]] PlanRecord describe_plan(const Program& program);
/// Bytes by category, of all the sessions that are in memory together. Peak counts what is in use at once; reserved
/// also what allocators hold without using it.
[[nodiscard]] MemoryReport describe_memory(std::span<const Session* const> sessions, const WeightStore& weights,
                                           const Backend& backend);
/// Names a plan by its content, so that results of equal plans share one.
[[nodiscard]] std::string plan_id(const PlanRecord& plan);

}  // namespace headroom
