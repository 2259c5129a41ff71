#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cuda/early_launch.cuh"
#include "base/error.hpp"
#include "kernels/cuda/launched.hpp"
#include "kernels/cudnn/engines.cuh"

namespace headroom::cudnn {
namespace {

/// "12=3 2=1": the knobs of a configuration by their type.
std::string knobs_of(const Descriptor& config) {
  std::vector<std::string> knobs;
  for (const Descriptor& choice :
       config.get_all(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS))
    knobs.push_back(fmt::format(
        "{}={}",
        static_cast<int>(choice.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE)),
        choice.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64)));
  return fmt::format("{}", fmt::join(knobs, " "));
}

EngineConfig describe(Descriptor config) {
  std::vector<Descriptor> engines = config.get_all(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  HR_CHECK_EQ(engines.size(), std::size_t{1});
  const auto number = engines[0].get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const std::int64_t count =
      engines[0].get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span(notes));
  notes.resize(std::min(notes.size(), static_cast<std::size_t>(count)));
  std::string name = fmt::format("engine {} ({})", number, knobs_of(config));
  return {.config = std::move(config), .name = std::move(name), .notes = std::move(notes)};
}

}  // namespace

bool EngineConfig::has(cudnnBackendNumericalNote_t note) const { return std::ranges::count(notes, note) > 0; }

std::vector<EngineConfig> list_engines(const Descriptor& graph, cudnnBackendHeurMode_t mode, std::size_t most) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!heuristic.try_finalize()) return {};
  std::vector<EngineConfig> engines;
  for (Descriptor& config : heuristic.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most))
    engines.push_back(describe(std::move(config)));
  return engines;
}

Plan::Plan(std::shared_ptr<Context> context, Descriptor plan)
    : context_(std::move(context)),
      plan_(std::move(plan)),
      workspace_bytes_(static_cast<std::size_t>(
          plan_.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64))) {}

std::optional<Plan> Plan::make(std::shared_ptr<Context> context, const EngineConfig& engine) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  const std::scoped_lock lock(context->mutex());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, context->handle())
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  if (!plan.try_finalize()) return std::nullopt;
  return Plan(std::move(context), std::move(plan));
}

void Plan::pack(std::span<const Bound> operands, void* workspace) const {
  std::vector<std::int64_t> uids;
  std::vector<const void*> addresses;
  for (const Bound& operand : operands) {
    uids.push_back(operand.uid);
    addresses.push_back(operand.address);
  }
  pack_.emplace(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<const void* const>(addresses))
      .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(uids))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
      .finalize();
  packed_.assign(operands.begin(), operands.end());
  packed_workspace_ = workspace;
}

void Plan::run(void* stream, std::span<const Bound> operands, void* workspace) const {
  const std::scoped_lock lock(context_->mutex());
  if (!std::ranges::equal(operands, packed_) || workspace != packed_workspace_) pack(operands, workspace);
  const auto execute = [&](cudaStream_t on) {
    check(library().SetStream(context_->handle(), on));
    check(library().BackendExecute(context_->handle(), plan_.get(), pack_->get()));
  };
  if (!begins_early_) begins_early_ = cuda::begins_early(execute);
  if (*begins_early_) {
    cuda::launch_wait(static_cast<cudaStream_t>(stream));
    cuda::check_launched("wait in front of cuDNN's kernels");
  }
  execute(static_cast<cudaStream_t>(stream));
}

}  // namespace headroom::cudnn
