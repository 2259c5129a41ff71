#include "run/compile.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kernels/core/fusion_rules.hpp"
#include "passes/split_setup.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

/// Why a switch of the plan cannot apply, independent of the graph; empty if it may.
std::string obstacle_to_tiles(const SwitchSet& switches, const Target& target) {
  const std::string obstacle = obstacle_to(Capability::kTiles, target);
  if (!obstacle.empty() || switches.has("arena")) return obstacle;
  return "without arena every result has a buffer of its own for the whole batch";
}

std::string obstacle_to_lanes(const SwitchSet& switches, const Target& target) {
  const std::string obstacle = obstacle_to(Capability::kLanes, target);
  if (!obstacle.empty() || switches.has("arena")) return obstacle;
  return "without arena memory is handed on in the order of the schedule";
}

std::string why_nothing_is_tiled(int threads) {
  return fmt::format("no chain of ops has enough samples for {} and gains by tiling",
                     threads == 1 ? std::string("a thread") : fmt::format("{} threads", threads));
}

}  // namespace

Compiled compile(Graph graph, const SwitchSet& switches, const DeviceTarget& target, const CompileOptions& options) {
  HR_CHECK(options.baseline == DType::kF32 || options.baseline == DType::kBF16);
  const bool is_bf16 = options.baseline == DType::kBF16;
  Compiled compiled{.program = {}, .passes = {}, .applied = {}, .declined = {}, .baseline = options.baseline};
  const auto optimize_start = std::chrono::steady_clock::now();
  Target with_rules = target;
  with_rules.fusion = &kernel_rules();
  with_rules.sharing = options.sharing ? &*options.sharing : nullptr;
  OptimizeReport report = optimize(graph, is_bf16 ? switches.with(SwitchSet::parse("bf16")) : switches, with_rules);
  std::optional<Graph> setup;
  if (switches.has("hoist") && options.fresh_inputs) setup = split_setup(graph, *options.fresh_inputs);
  compiled.optimize_ms = milliseconds_since(optimize_start);
  compiled.passes = std::move(report.passes);
  compiled.declined = std::move(report.declined);
  if (is_bf16) {
    std::erase_if(compiled.declined, [](const Declined& declined) { return declined.switch_name == "bf16"; });
    if (switches.has("bf16")) compiled.declined.push_back({"bf16", "the baseline computes in bf16 already"});
  }
  if (setup) std::erase_if(compiled.declined, [](const Declined& declined) { return declined.switch_name == "hoist"; });
  for (const char* name : {"sampler", "steps"})
    if (switches.has(name) && !options.steps_applied)
      compiled.declined.push_back({name, "there is no denoise loop here: this is one forward pass"});
  for (const char* name : {"stream-batch", "rcfg", "similarity"})
    if (switches.has(name) && !options.stream_applied)
      compiled.declined.push_back({name, "there is no live stream here"});

  const auto applies = [&](std::string_view name, const std::string& obstacle) {
    if (!switches.has(name)) return false;
    if (!obstacle.empty()) compiled.declined.push_back({std::string(name), obstacle});
    return obstacle.empty();
  };
  const bool records = applies("graph", obstacle_to(Capability::kRecording, target));
  const bool spreads = applies("streams", obstacle_to_lanes(switches, target));
  const bool tiles = applies("tile", obstacle_to_tiles(switches, target));

  const auto plan_start = std::chrono::steady_clock::now();
  PlanOptions plan_options{.arena = switches.has("arena"),
                           .lanes = spreads ? 2 : 1,
                           .tile = tiles,
                           .graph = records,
                           .outputs_apart = options.outputs_apart};
  auto program = std::make_shared<Program>(plan(graph, target, plan_options));
  if (setup) {
    plan_options.outputs_apart = true;
    Program before = plan(*setup, target, plan_options);
    before.outputs_elsewhere = true;
    program->setup = std::make_shared<Program>(std::move(before));
  }
  compiled.program = std::move(program);
  compiled.plan_ms = milliseconds_since(plan_start);
  if (tiles && compiled.program->tiled.empty())
    compiled.declined.push_back({"tile", why_nothing_is_tiled(target.threads)});

  for (const std::string& name : switches.names()) {
    const std::string_view bare = std::string_view(name).substr(0, name.find('='));
    if (std::ranges::none_of(compiled.declined, [&](const Declined& declined) { return declined.switch_name == bare; }))
      compiled.applied.push_back(name);
  }
  return compiled;
}

}  // namespace headroom
