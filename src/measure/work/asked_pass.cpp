#include "measure/work/asked_pass.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text/nearest.hpp"
#include "pipelines/stages/stage_pass.hpp"
#include "pipelines/streams/stream_model.hpp"

namespace headroom {
namespace {

bool takes_frames(const OpenedModel& model) {
  if (!model.pipeline) return is_stream_network(model.network());
  try {
    static_cast<void>(make_stream_model(*model.pipeline));
    return true;
  } catch (const Error&) {  // which says why not
    return false;
  }
}

/// `names` are the passes that there are, without a frame.
[[noreturn]] void refuse_pass(const OpenedModel& model, std::string_view name, const std::string& pass,
                              std::vector<std::string> names) {
  if (takes_frames(model)) names.emplace_back(kFrame);
  fail_usage("{} has no pass '{}': expected one of {}{}", name, pass, fmt::join(names, ", "),
             did_you_mean(pass, names));
}

constexpr std::string_view kForward = "forward";

PassMaker pipeline_passes(const OpenedModel& model, const std::string& pass, RequestOptions request,
                          const ImageSize& size) {
  const Pipeline& pipeline = *model.pipeline;
  const bool is_forward = pass.empty() || pass == kForward;
  std::vector<std::string> names = stage_passes(pipeline);
  if (!is_forward && std::ranges::find(names, pass) == names.end()) {
    names.insert(names.begin(), {std::string(kWholeRequest), std::string(kForward)});
    refuse_pass(model, pipeline.name(), pass, std::move(names));
  }
  if (!is_forward && !request.references.empty())
    fail_usage("--reference-rows is of the pass forward, and this one is {}", pass);
  if (!request.references.empty() && pipeline.image_use() == ImageUse::kStart)
    fail_usage("--reference-rows: {} edits no images", pipeline.name());
  resolve_size(pipeline, size, request);
  return [&pipeline, is_forward, pass, asked = pipeline.resolve(request)](std::int64_t rows) {
    Request taller = asked;
    taller.token_rows += rows;
    return is_forward ? pipeline.forward_pass(taller) : stage_pass(pipeline, pass, taller);
  };
}

/// Frames of a stream through the model's network; `rows` does not change their size.
PassMaker frame_passes(const OpenedModel& model, const RequestOptions& request, const ImageSize& size) {
  AskedStream asked = asked_stream(model, request, size);
  for (const std::string& name : request.switches.names()) {
    const std::string obstacle = asked.model->obstacle_to(name.substr(0, name.find('=')));
    if (!obstacle.empty())
      fail_usage("the switch {} does not apply to a frame of {}: {}", name, model.network().name, obstacle);
  }
  return [stream = std::move(asked)](std::int64_t /*rows*/) { return frame_pass(stream.model, stream.options); };
}

/// The pass of that name, or the first.
const ComponentPass& component_pass(const OpenedModel& model, const std::string& pass) {
  const ComponentClass& kind = *model.network().kind;
  if (pass.empty()) return kind.passes.front();
  const auto found = std::ranges::find(kind.passes, pass, &ComponentPass::name);
  if (found != kind.passes.end()) return *found;
  std::vector<std::string> names;
  for (const ComponentPass& each : kind.passes) names.emplace_back(each.name);
  refuse_pass(model, kind.name, pass, std::move(names));
}

PassMaker image_passes(const Component& component, const ComponentPass& pass, const RequestOptions& request,
                       const ImageSize& size) {
  if (!request.references.empty()) fail_usage("--reference-rows: {} edits no images", component.name);
  if (request.token_rows != 0 || request.token_columns != 0 || request.text_tokens != 0)
    fail_usage("{} works on images: give --height and --width in place of tokens", component.name);
  PassSize asked = component.kind->own_size == nullptr ? PassSize{} : component.kind->own_size(component.config);
  asked.batch = request.images;
  if (size.height > 0) asked.height = size.height;
  if (size.width > 0) asked.width = size.width;
  return [&component, &pass, asked](std::int64_t rows) {
    constexpr std::int64_t kRowPixels = 64;  // a whole number of latents for every network
    PassSize taller = asked;
    taller.height += kRowPixels * rows;
    return make_forward_pass(component, pass, taller);
  };
}

/// Passes of a text; `rows` makes it shorter in both directions, as it may already have the network's maximum
/// length.
PassMaker text_passes(const Component& component, const ComponentPass& pass, const RequestOptions& request,
                      const ImageSize& size) {
  if (request.token_rows != 0 || request.token_columns != 0 || !request.references.empty() || size.height > 0 ||
      size.width > 0)
    fail_usage("{} works on text: give --text-tokens in place of the size of an image", component.name);
  const std::int64_t tokens =
      request.text_tokens > 0 ? request.text_tokens : component.kind->text_tokens(component.config);
  return [&component, &pass, batch = request.images, tokens](std::int64_t rows) {
    const std::int64_t shorter = std::max<std::int64_t>(tokens - std::abs(rows), 1);
    return make_forward_pass(component, pass, PassSize{.batch = batch, .text_tokens = shorter});
  };
}

/// Adds the given sizes of an image, which have no effect.
void add_sizes(const RequestOptions& request, const ImageSize& size, const std::string& reason,
               std::vector<IdleOption>& idle) {
  for (const auto& [option, given] : {std::pair("token_rows", request.token_rows),
                                      {"token_columns", request.token_columns},
                                      {"height", size.height},
                                      {"width", size.width}})
    if (given != 0) idle.push_back({option, reason});
}

std::vector<IdleOption> idle_of_frame(const OpenedModel& model, const RequestOptions& request, const ImageSize& size) {
  const AskedStream asked = asked_stream(model, request, size);
  std::vector<IdleOption> idle = asked.model->idle_options(asked.options);
  if (request.images > 1) idle.push_back({"batch", "a stream has one frame at a time"});
  if (!request.references.empty()) idle.push_back({"reference_rows", "a frame is the only image of its pass"});
  add_sizes(request, {}, "the size of a frame is given in pixels", idle);
  return idle;
}

}  // namespace

void resolve_size(const Pipeline& pipeline, const ImageSize& size, RequestOptions& request) {
  if (size.height != 0) request.token_rows = tokens_along(pipeline, "--height", size.height);
  if (size.width != 0) request.token_columns = tokens_along(pipeline, "--width", size.width);
}

std::vector<IdleOption> idle_of_pass(const OpenedModel& model, const std::string& pass, const RequestOptions& request,
                                     const ImageSize& size) {
  if (pass == kFrame) return idle_of_frame(model, request, size);
  std::vector<IdleOption> idle;
  if (request.steps != 0) idle.push_back({"steps", "it is for whole requests, and this is one pass"});
  if (!model.pipeline || pass.empty() || pass == kForward) return idle;
  if (request.images > 1) idle.push_back({"batch", fmt::format("a request runs its {} once for each image", pass)});
  const std::span<const TextReader> readers = model.pipeline->text_readers();
  const auto reader = std::ranges::find(readers, pass, &TextReader::encoder);
  if (reader == readers.end()) {
    if (request.text_tokens != 0) idle.push_back({"text_tokens", fmt::format("{} reads no text", pass)});
    return idle;
  }
  if (request.text_tokens != 0 && reader->tokens != 0)
    idle.push_back({"text_tokens", fmt::format("{} always reads {} tokens", pass, reader->tokens)});
  add_sizes(request, size, fmt::format("{} reads text alone", pass), idle);
  return idle;
}

AskedStream asked_stream(const OpenedModel& model, const RequestOptions& request, const ImageSize& size) {
  AskedStream asked{.model = model.pipeline ? make_stream_model(*model.pipeline) : make_stream_model(*model.component),
                    .options = {.steps = request.steps,
                                .strength = request.strength,
                                .text_tokens = request.text_tokens,
                                .switches = request.switches}};
  asked.options.size = asked.model->own_size();
  if (size.height > 0) asked.options.size.height = size.height;
  if (size.width > 0) asked.options.size.width = size.width;
  return asked;
}

SwitchedPassMaker asked_switched_pass(const OpenedModel& model, const std::string& pass, const RequestOptions& request,
                                      const ImageSize& size) {
  return [&model, pass, request, size](const SwitchSet& switches) {
    RequestOptions switched = request;
    switched.switches = switches;
    return asked_passes(model, pass, switched, size)(0);
  };
}

PassMaker asked_passes(const OpenedModel& model, const std::string& pass, const RequestOptions& request,
                       const ImageSize& size) {
  if (pass == kFrame) return frame_passes(model, request, size);
  if (model.pipeline) return pipeline_passes(model, pass, request, size);
  const Component& network = model.network();
  const ComponentPass& named = component_pass(model, pass);
  const auto passes = network.kind->text_tokens == nullptr ? image_passes : text_passes;
  return passes(network, named, request, size);
}

}  // namespace headroom
