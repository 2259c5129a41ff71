#include "measure/results/describe.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backends/device.hpp"
#include "base/error.hpp"
#include "base/files/hash.hpp"
#include "measure/probes/machine.hpp"
#include "measure/protocol/stages.hpp"
#include "measure/results/result_json.hpp"
#include "passes/step_caches/step_cache_options.hpp"
#include "plan/arena.hpp"

namespace headroom {
namespace {

std::string name_of_unit(ComputeUnit unit) {
  switch (unit) {
    case ComputeUnit::kNone:
      return "none";
    case ComputeUnit::kVector:
      return "vector";
    case ComputeUnit::kMatrix:
      return "matrix";
  }
  return "none";
}

std::optional<UsedGpu> describe_gpu(const Backend& backend) {
  const std::optional<GpuIdentity> gpu = gpu_of(backend);
  if (!gpu) return std::nullopt;
  return UsedGpu{.name = gpu->name, .index = gpu->index, .uuid = gpu->uuid};
}

void add_plan(Result& result, std::map<std::string, PlanRecord>& plans, const Program& program) {
  PlanRecord plan = describe_plan(program);
  result.plan = plan_id(plan);
  plans.try_emplace(*result.plan, std::move(plan));
}

void add_replay_obstacles(Configuration& configuration, std::span<const Session* const> sessions) {
  for (const Session* const session : sessions)
    if (const std::optional<ReplayObstacle>& obstacle = session->obstacle_to_one_replay())
      configuration.kept.push_back(
          {.switch_name = "graph",
           .reason = obstacle->reason,
           .nodes = obstacle->path.empty() ? std::vector<std::string>() : std::vector{obstacle->path}});
}

}  // namespace

ResultFile begin_result_file() {
  return {.created = utc_now(), .machine = describe_machine(), .plans = {}, .results = {}};
}

void check_clock() {
  if (const std::string now = utc_now(); !is_date_of_results(now))
    fail(
        "this machine's clock says {}, and nothing reads a result of that time: set it before measuring (a time in UTC "
        "of the years "
        "2000 to 2199 was expected)",
        now);
}

Result begin_result(std::string name, Subject subject, Configuration configuration) {
  const std::optional<BuildInfo> build = describe_machine().build;
  return {.id = name,
          .name = std::move(name),
          .subject = std::move(subject),
          .source = {.name = "headroom", .version = build ? build->version : ""},
          .configuration = std::move(configuration),
          .trials = {},
          .memory = {},
          .quality = {},
          .tags = {},
          .plan = {}};
}

Result begin_result(const SwitchSet& switches, Subject subject, const Compiled& compiled, const Checkpoint& checkpoint,
                    const Backend& backend) {
  Result result =
      begin_result(switches.to_string(), std::move(subject), describe_configuration(switches, compiled, backend));
  if (checkpoint.is_random()) result.tags.emplace_back("random_weights");
  if (has_forced_decisions(SwitchSet::parse(fmt::format("{}", fmt::join(compiled.applied, ",")))))
    result.tags.emplace_back("forced");
  return result;
}

void add_plan_and_memory(Result& result, std::map<std::string, PlanRecord>& plans, const Session& session,
                         const WeightStore& weights, const Backend& backend) {
  const Session* const sessions[] = {&session};
  result.memory = describe_memory(sessions, weights, backend);
  add_replay_obstacles(result.configuration, sessions);
  add_plan(result, plans, session.program());
}

void add_plan_and_memory(Result& result, std::map<std::string, PlanRecord>& plans, const Generator& generator,
                         const WeightStore& weights, const Backend& backend) {
  std::vector<const Session*> sessions;
  for (const DeviceStage* const stage : generator.device_stages()) sessions.push_back(stage->session.get());
  MemoryReport memory = describe_memory(sessions, weights, backend);
  // If stages are offloaded alternately, at most this many bytes are on the device at once.
  const auto limit = static_cast<std::int64_t>(generator.shared().offloader->limit());
  for (std::optional<std::int64_t>* const bytes : {&memory.peak_bytes, &memory.reserved_bytes})
    *bytes = std::min(bytes->value(), limit);
  result.memory = memory;
  result.stages = describe_stages(generator);
  add_replay_obstacles(result.configuration, sessions);
  add_plan(result, plans, generator.session().program());
}

Configuration describe_configuration(const SwitchSet& asked, const Compiled& compiled, const Backend& backend) {
  const Target target = backend.properties().target;
  Configuration configuration{.device = std::string(name_of(target.device)),
                              .gpu = describe_gpu(backend),
                              .asked = asked.names(),
                              .applied = compiled.applied,
                              .declined = {},
                              .kept = {},
                              .threads = target.threads,
                              .baseline_dtype = std::string(name_of(compiled.baseline))};
  for (const std::string& name : asked.names())
    for (const Declined& declined : compiled.declined)
      if (name.substr(0, name.find('=')) == declined.switch_name)
        configuration.declined.push_back({name, declined.reason});
  for (const PassRecord& pass : compiled.passes)
    for (const PassNote& note : pass.notes)
      configuration.kept.push_back({std::string(pass.switch_name), note.reason, note.nodes});
  return configuration;
}

Subject describe_request(const Pipeline& pipeline, RequestOptions options) {
  options.switches = {};  // `steps` and `sampler` change how the work is done, not the work itself
  const Request request = pipeline.resolve(options);
  Subject subject{.kind = SubjectKind::kModel,
                  .name = pipeline.name(),
                  .request = {{"images", request.images},
                              {"token_rows", request.token_rows},
                              {"token_columns", request.token_columns},
                              {"text_tokens", request.longest_text()},
                              {"steps", request.steps},
                              {"guidance_scale", request.guidance_scale},
                              {"classifier_free_guidance", request.classifier_free_guidance}},
                  .parameters = pipeline.denoiser().parameters(),
                  .token_pixels = pipeline.token_pixels()};
  if (request.classifier_free_guidance && request.true_cfg_scale != request.guidance_scale)
    subject.request["true_cfg_scale"] = request.true_cfg_scale;
  if (!request.text_lengths.empty()) subject.request["text_lengths"] = request.text_lengths;
  if (request.sampler != Sampler::kEuler) subject.request["sampler"] = to_string(request.sampler);
  return subject;
}

Subject describe_pass(const ForwardPass& pass) {
  Subject subject{.kind = SubjectKind::kModel,
                  .name = pass.component->name,
                  .request = pass.request,
                  .parameters = pass.component->parameters()};
  if (pass.size.token_pixels > 0) subject.token_pixels = pass.size.token_pixels;
  return subject;
}

Result describe_kernel(const Backend& backend, const std::string& name, std::string op, nlohmann::json request) {
  const Target target = backend.properties().target;
  return begin_result(name, {.kind = SubjectKind::kKernel, .name = std::move(op), .request = std::move(request)},
                      {.device = std::string(name_of(target.device)),
                       .gpu = describe_gpu(backend),
                       .asked = {},
                       .applied = {},
                       .declined = {},
                       .kept = {},
                       .threads = target.threads,
                       .baseline_dtype = {}});
}

PlanRecord describe_plan(const Program& program) {
  PlanRecord plan;
  for (const Step& step : program.steps) {
    const TiledRun* const run = tiled_run_at(program, static_cast<int>(plan.nodes.size()));
    PlannedNode node{.node = step.label,
                     .op = std::string(name_of(step.op)),
                     .kernel = "backend.copy",
                     .implementation = "copy",
                     .compute_type = "none",
                     .cost_bytes = step.cost.bytes,
                     .cost_flops = step.cost.flops,
                     .cost_unit = name_of_unit(step.cost.unit),
                     .parts = run == nullptr ? 1 : run->parts,
                     .rejections = {}};
    if (step.kernel != nullptr) {
      node.kernel = step.kernel->name();
      node.implementation = step.prepared->implementation();
      node.compute_type = step.kernel->compute_name(step.spec);
    }
    for (const RejectedKernel& rejected : step.rejections)
      node.rejections.push_back({std::string(rejected.kernel), rejected.reason});
    plan.nodes.push_back(std::move(node));
  }
  return plan;
}

MemoryReport describe_memory(std::span<const Session* const> sessions, const WeightStore& weights,
                             const Backend& backend) {
  std::size_t state = 0, inputs = 0, scratch = 0, activations = 0, reserved = 0;
  std::vector<const Session*> with_setups(sessions.begin(), sessions.end());
  for (const Session* const session : sessions)
    if (const Session* const setup = session->setup();
        setup != nullptr && std::ranges::find(sessions, setup) == sessions.end())
      with_setups.push_back(setup);
  for (const Session* const session : with_setups) {
    const Program& program = session->program();
    std::size_t most_scratch = 0;
    for (const StepMemory& memory : memory_by_step(program)) most_scratch = std::max(most_scratch, memory.scratch);
    scratch += most_scratch;
    for (const Storage& storage : program.storages) {
      if (storage.kind == StorageKind::kState) state += storage.bytes;
      if (storage.kind == StorageKind::kInput || storage.kind == StorageKind::kCounter) inputs += storage.bytes;
    }
    activations += session->activation_peak_bytes();
    reserved += session->activation_reserved_bytes();
  }
  const std::size_t fixed = weights.bytes() + state + inputs;
  const auto bytes = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  const DeviceProperties device = backend.properties();
  const std::size_t known = device.available_bytes + backend.reserved_bytes();
  std::optional<std::int64_t> taken;
  if (const std::optional<std::size_t> all = backend.taken_bytes()) taken = bytes(*all);
  return {.weights_bytes = bytes(weights.bytes()),
          .activations_bytes = bytes(activations),
          .workspace_bytes = bytes(scratch),
          .state_bytes = bytes(state),
          .inputs_bytes = bytes(inputs),
          .peak_bytes = bytes(fixed + activations),
          .reserved_bytes = bytes(fixed + reserved),
          .resident_peak_bytes = {},
          .device_total_bytes = bytes(device.memory_bytes),
          .over_context_bytes = taken,
          .untracked_bytes = bytes(device.memory_bytes - std::min(device.memory_bytes, known))};
}

std::string plan_id(const PlanRecord& plan) {
  Hasher hasher;
  for (const PlannedNode& node : plan.nodes) {
    hasher.add(node.node)
        .add(node.op)
        .add(node.kernel)
        .add(node.implementation)
        .add(node.compute_type)
        .add(node.cost_bytes)
        .add(node.cost_flops);
    if (node.parts > 1) hasher.add(static_cast<double>(node.parts));
  }
  return hasher.hex();
}

}  // namespace headroom
