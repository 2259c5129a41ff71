#include "cli/commands/ladder_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "cli/commands/asked_pass.hpp"
#include "ir/op_definition.hpp"
#include "measure/quality/stream_judge.hpp"
#include "pipelines/streams/frame_stream.hpp"

namespace headroom {
namespace {

/// The default pass if none is named; empty for requests.
std::string pass_of(const Engine& engine, std::string pass) {
  if (engine.pipeline) return pass == kWholeRequest ? std::string() : std::move(pass);
  if (!pass.empty()) return pass;
  const Component& network = engine.network();
  return is_stream_network(network) ? std::string(kFrame) : std::string(network.kind->passes.front().name);
}

bool has_convolutions(const ForwardPass& pass) {
  const Graph graph = pass.build(pass.size);
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return is_convolution(node.op); });
}

void refuse_options_of_requests(const std::string& pass, const LadderOptions& options) {
  if (options.floors) fail_usage("--floors is for the stages of whole requests, and this is the pass {}", pass);
  if (!options.prompts.empty()) fail_usage("--prompts is for whole requests, and this is the pass {}", pass);
  if (options.quality_images > 0 && pass != kFrame)
    fail_usage(
        "--quality judges images of whole requests and clips of streams, and this is the pass {}, whose error against "
        "the baseline is always measured",
        pass);
}

}  // namespace

LadderSubject::LadderSubject(const Engine& engine, std::string pass, const ImageSize& size, LadderOptions& options)
    : engine_(engine), pass_(pass_of(engine, std::move(pass))), size_(size) {
  if (pass_.empty()) {
    resolve_size(*engine.pipeline, size, options.request);
    options.request.images = images_of(options.request, *engine.pipeline);
    return;
  }
  refuse_options_of_requests(pass_, options);
  options.request.images = std::max<std::int64_t>(options.request.images, 1);
  made_ =
      LadderPass{.components = engine.components(), .make = asked_switched_pass(engine, pass_, options.request, size)};
  static_cast<void>(made_->make({}));  // reports impossible requests before anything is measured
  if (pass_ == kFrame && options.quality_images > 0) judge_frames(options, size);
}

void LadderSubject::judge_frames(const LadderOptions& options, const ImageSize& size) {
  const StreamTeacher teacher = open_stream_teacher(engine_.network());
  made_->judge = [&engine = engine_, teacher, size, clips = options.quality_images, request = options.request](
                     const SwitchSet& switches, WeightStore& weights) -> std::vector<QualityRecord> {
    RequestOptions switched = request;
    switched.switches = switches.for_target(engine.backend->properties().target);
    const AskedStream asked = asked_stream(engine, switched, size);
    FrameStream frames(*asked.model, *engine.backend, weights, asked.options);
    if (frames.delay() != 0) return {};  // its output frames are delayed
    return quality_records(judge_stream(teacher, clips, frames));
  };
}

bool LadderSubject::makes_images() const {
  return !made_ && engine_.pipeline && engine_.pipeline->obstacle_to_images().empty();
}

AutoRequest LadderSubject::auto_request(const RequestOptions& request) const {
  if (!made_) return make_auto_request(*engine_.pipeline, request);
  return {.forward = made_->make(request.switches), .denoise = {}};
}

std::string LadderSubject::default_switches(const RequestOptions& request) const {
  const Target target = engine_.backend->properties().target;
  const bool is_bf16 = engine_.network().baseline == DType::kBF16;
  const auto has = [&](Capability capability) { return obstacle_to(capability, target).empty(); };
  std::string list = "arena,flash,fuse";
  if (!made_ || pass_ == kFrame) list += ",hoist";                     // which only applies to loops
  const SwitchSet fast = SwitchSet::parse("fast").for_target(target);  // without those for other devices
  if (has(Capability::kBf16Units)) {
    if (!is_bf16) list += ",bf16";
  } else if (has(Capability::kInt8Matmuls)) {
    list += ",int8";
  }
  if (fast.has("fp8")) list += ",fp8";
  if (has_convolutions(auto_request(request).forward))
    list += fast.has("align") ? ",align,channels-last" : ",channels-last";
  for (const char* name : {"tile", "streams", "graph"})
    if (fast.has(name)) list += fmt::format(",{}", name);
  if (made_) return list;
  const std::int64_t half = engine_.pipeline->resolve(request).steps / 2;
  return half < 1 ? list : fmt::format("{},steps={}", list, half);
}

void LadderSubject::check_switches(const SwitchSet& switches) const {
  if (pass_ != kFrame) return;
  const AskedStream asked = asked_stream(engine_, {}, {});
  for (const std::string& name : switches.names())
    if (const std::string obstacle = asked.model->obstacle_to(name.substr(0, name.find('='))); !obstacle.empty())
      fail_usage("--opt {}: {}", name, obstacle);
}

std::vector<IdleOption> LadderSubject::idle_options(const LadderOptions& options) const {
  const RequestOptions& request = options.request;
  if (!made_) return engine_.pipeline->idle_options(request, {});
  std::vector<IdleOption> idle = idle_of_pass(engine_, pass_, request, size_);
  const std::string reason = "it is for whole requests, and this is one pass";
  if (request.guidance_scale) idle.push_back({"guidance", reason});
  if (request.true_cfg_scale) idle.push_back({"true_cfg_scale", reason});
  if (options.seed != 0) idle.push_back({"seed", reason});
  return idle;
}

RoundRun LadderSubject::rounds(const LadderOptions& options, std::int64_t process,
                               const LadderObserver& observer) const {
  return made_ ? run_rounds_here(*made_, *engine_.backend, options, process, observer)
               : run_rounds_here(*engine_.pipeline, *engine_.backend, options, process, observer);
}

}  // namespace headroom
