#include "measure/work/ladder_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "ir/op_definition.hpp"
#include "measure/quality/stream_judge.hpp"
#include "measure/work/asked_pass.hpp"
#include "pipelines/streams/frame_stream.hpp"

namespace headroom {
namespace {

/// The default pass if none is named; empty for requests.
std::string pass_of(const OpenedModel& model, std::string pass) {
  if (model.pipeline) return pass == kWholeRequest ? std::string() : std::move(pass);
  if (!pass.empty()) return pass;
  const Component& network = model.network();
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

LadderSubject::LadderSubject(const OpenedModel& model, Backend& backend, std::string pass, const ImageSize& size,
                             LadderOptions& options)
    : model_(model), backend_(backend), pass_(pass_of(model, std::move(pass))), size_(size) {
  if (pass_.empty()) {
    resolve_size(*model.pipeline, size, options.request);
    options.request.images = images_of(options.request, *model.pipeline);
    return;
  }
  refuse_options_of_requests(pass_, options);
  options.request.images = std::max<std::int64_t>(options.request.images, 1);
  made_ =
      LadderPass{.components = model.components(), .make = asked_switched_pass(model, pass_, options.request, size)};
  static_cast<void>(made_->make({}));  // reports impossible requests before anything is measured
  if (pass_ == kFrame && options.quality_images > 0) judge_frames(options, size);
}

void LadderSubject::judge_frames(const LadderOptions& options, const ImageSize& size) {
  const StreamTeacher teacher = open_stream_teacher(model_.network());
  made_->judge = [&model = model_, &backend = backend_, teacher, size, clips = options.quality_images,
                  request = options.request](const SwitchSet& switches,
                                             WeightStore& weights) -> std::vector<QualityRecord> {
    RequestOptions switched = request;
    switched.switches = switches.for_target(backend.properties().target);
    const AskedStream asked = asked_stream(model, switched, size);
    FrameStream frames(*asked.model, backend, weights, asked.options);
    if (frames.delay() != 0) return {};  // its output frames are delayed
    return quality_records(judge_stream(teacher, clips, frames));
  };
}

bool LadderSubject::makes_images() const {
  return !made_ && model_.pipeline && model_.pipeline->obstacle_to_images().empty();
}

AutoRequest LadderSubject::auto_request(const RequestOptions& request) const {
  if (!made_) return make_auto_request(*model_.pipeline, request);
  return {.forward = made_->make(request.switches), .denoise = {}};
}

std::string LadderSubject::default_switches(const RequestOptions& request) const {
  const Target target = backend_.properties().target;
  const bool is_bf16 = model_.network().baseline == DType::kBF16;
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
  const std::int64_t half = model_.pipeline->resolve(request).steps / 2;
  return half < 1 ? list : fmt::format("{},steps={}", list, half);
}

void LadderSubject::check_switches(const SwitchSet& switches) const {
  if (pass_ != kFrame) return;
  const AskedStream asked = asked_stream(model_, {}, {});
  for (const std::string& name : switches.names())
    if (const std::string obstacle = asked.model->obstacle_to(name.substr(0, name.find('='))); !obstacle.empty())
      fail_usage("--opt {}: {}", name, obstacle);
}

std::vector<IdleOption> LadderSubject::idle_options(const LadderOptions& options) const {
  const RequestOptions& request = options.request;
  if (!made_) return model_.pipeline->idle_options(request, {});
  std::vector<IdleOption> idle = idle_of_pass(model_, pass_, request, size_);
  const std::string reason = "it is for whole requests, and this is one pass";
  if (request.guidance_scale) idle.push_back({"guidance", reason});
  if (request.true_cfg_scale) idle.push_back({"true_cfg_scale", reason});
  if (options.seed != 0) idle.push_back({"seed", reason});
  return idle;
}

RoundRun LadderSubject::rounds(const LadderOptions& options, std::int64_t process,
                               const LadderObserver& observer) const {
  return made_ ? run_rounds_here(*made_, backend_, options, process, observer)
               : run_rounds_here(*model_.pipeline, backend_, options, process, observer);
}

}  // namespace headroom
