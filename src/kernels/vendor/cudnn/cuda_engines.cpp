#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "backends/cuda/early_launch.cuh"
#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/core/cuda/launched.hpp"
#include "kernels/vendor/cudnn/engines.cuh"

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

std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& engine) {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::span(notes));
  notes.resize(std::min(notes.size(), static_cast<std::size_t>(count)));
  return notes;
}

struct Knob {
  std::int64_t type, value;
};
struct NamedEngine {
  std::int64_t number = 0;
  std::vector<Knob> knobs;
};

/// Parses a name that describe() made; nothing if it has another form, or names a knob that these headers do not
/// know.
std::optional<NamedEngine> parse(std::string_view name) {
  const auto skip = [&](std::string_view text) {
    const bool is_there = name.starts_with(text);
    if (is_there) name.remove_prefix(text.size());
    return is_there;
  };
  const auto read = [&](std::int64_t& number) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    return error == std::errc();
  };
  NamedEngine engine;
  if (!skip("engine ") || !read(engine.number) || !skip(" (")) return std::nullopt;
  while (!skip(")")) {
    Knob& knob = engine.knobs.emplace_back();
    if ((engine.knobs.size() > 1 && !skip(" ")) || !read(knob.type) || !skip("=") || !read(knob.value))
      return std::nullopt;
    if (knob.type < 0 || knob.type >= CUDNN_KNOB_TYPE_COUNTS) return std::nullopt;
  }
  return name.empty() ? std::optional(std::move(engine)) : std::nullopt;
}

}  // namespace

EngineConfig describe(Descriptor config) {
  std::vector<Descriptor> engines = config.get_all(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  HR_CHECK_EQ(engines.size(), std::size_t{1});
  const auto number = engines[0].get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64);
  std::string name = fmt::format("engine {} ({})", number, knobs_of(config));
  return {.config = std::move(config), .name = std::move(name), .notes = notes_of(engines[0])};
}

std::optional<EngineConfig> find_engine(const Descriptor& graph, std::string_view name) {
  const std::optional<NamedEngine> named = parse(name);
  if (!named) return std::nullopt;
  std::vector<Descriptor> parts;
  Descriptor& engine = parts.emplace_back(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, named->number);
  if (!engine.try_finalize()) return std::nullopt;
  std::vector<cudnnBackendNumericalNote_t> notes = notes_of(engine);
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::vector<cudnnBackendDescriptor_t> choices;
  for (const Knob& knob : named->knobs) {
    Descriptor& choice = parts.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(knob.type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, knob.value);
    if (!choice.try_finalize()) return std::nullopt;
    choices.push_back(choice.get());
  }
  if (!choices.empty())
    config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               std::span<const cudnnBackendDescriptor_t>(choices));
  if (!config.try_finalize()) return std::nullopt;
  return EngineConfig{
      .config = std::move(config), .name = std::string(name), .notes = std::move(notes), .parts = std::move(parts)};
}

bool EngineConfig::has(cudnnBackendNumericalNote_t note) const { return std::ranges::count(notes, note) > 0; }

std::vector<Descriptor> list_configs(const Descriptor& graph, cudnnBackendHeurMode_t mode, std::size_t most) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!heuristic.try_finalize()) return {};
  return heuristic.get_all(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most);
}

Plan::Plan(std::shared_ptr<Context> context, Descriptor plan)
    : context_(std::move(context)),
      plan_(std::move(plan)),
      workspace_bytes_(static_cast<std::size_t>(
          plan_.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64))) {}

std::optional<Plan> Plan::make(std::shared_ptr<Context> context, const Descriptor& config) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  const std::scoped_lock lock(context->mutex());
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, context->handle())
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
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

void Plan::execute(cudaStream_t stream) const {
  check(library().SetStream(context_->handle(), stream));
  check(library().BackendExecute(context_->handle(), plan_.get(), pack_->get()));
}

void Plan::make_ready(std::span<const Bound> operands, void* workspace) const {
  if (!std::ranges::equal(operands, packed_) || workspace != packed_workspace_) pack(operands, workspace);
  if (!uses_dependent_launch_)
    uses_dependent_launch_ = cuda::uses_dependent_launch([&](cudaStream_t stream) { execute(stream); });
}

bool Plan::can_be_recorded(std::span<const Bound> operands, void* workspace) const {
  const std::scoped_lock lock(context_->mutex());
  try {
    make_ready(operands, workspace);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    return false;
  }
  return true;
}

void Plan::run(void* stream, std::span<const Bound> operands, void* workspace) const {
  const std::scoped_lock lock(context_->mutex());
  make_ready(operands, workspace);
  if (*uses_dependent_launch_) {
    cuda::launch_wait(static_cast<cudaStream_t>(stream));
    cuda::check_launched("wait before cuDNN's kernels");
  }
  execute(static_cast<cudaStream_t>(stream));
}

}  // namespace headroom::cudnn
