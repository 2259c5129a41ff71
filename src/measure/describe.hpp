#pragma once

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "measure/result.hpp"
#include "run/compile.hpp"
#include "run/denoise.hpp"
#include "run/model.hpp"
#include "run/session.hpp"
#include "run/weight_store.hpp"

namespace headroom {

/// The parts of a result that describe how a compiled model ran.

/// What was asked, applied and declined.
[[nodiscard]] Configuration describe_configuration(const SwitchSet& asked, const Compiled& compiled,
                                                   const Backend& backend);
/// The work of a denoise request. `steps` are those of the work: fewer may run, by the switch of that name.
[[nodiscard]] Subject describe_denoise(const Model& model, const DenoiseRequest& request, std::int64_t steps,
                                       double guidance_scale);
/// The result of an op measured by itself, its one series named by what was done.
[[nodiscard]] Result describe_kernel(const Backend& backend, const std::string& name, std::string op,
                                     nlohmann::json request, TrialSeries series);
/// Kernels chosen and rejected, with costs.
[[nodiscard]] PlanRecord describe_plan(const Program& program);
/// Bytes by category. Peak counts what is in use at once; reserved also what the allocator holds without using it.
[[nodiscard]] MemoryReport describe_memory(const Session& session, const WeightStore& weights, const Backend& backend);
/// Names a plan by its content, so that results of equal plans share one.
[[nodiscard]] std::string plan_id(const PlanRecord& plan);

}  // namespace headroom
