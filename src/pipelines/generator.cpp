#include "pipelines/generator.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "pipelines/stacks.hpp"
#include "run/fit.hpp"

namespace headroom {
namespace {

std::optional<DeviceStage> compile_coder(std::string name, const std::optional<Pipeline::ImageCoder>& coder,
                                         const Request& request, const SwitchSet& switches, const Target& target) {
  if (!coder) return std::nullopt;
  return compile_stage(std::move(name), *coder->component, coder->build(request), switches, target);
}

/// Makes what is said of one stage's switches true of all: applied is what changed something anywhere, declined what
/// changed nothing.
void tell_of_all(Compiled& one, const std::vector<const DeviceStage*>& stages, const SwitchSet& switches) {
  std::vector<std::string> applied;
  for (const std::string& name : switches.names())
    if (std::ranges::any_of(stages, [&](const DeviceStage* stage) {
          return std::ranges::find(stage->compiled.applied, name) != stage->compiled.applied.end();
        }))
      applied.push_back(name);
  one.applied = std::move(applied);
  std::erase_if(one.declined, [&](const Declined& declined) {
    return std::ranges::any_of(one.applied, [&](const std::string& name) {
      return std::string_view(name).substr(0, name.find('=')) == declined.switch_name;
    });
  });
}

}  // namespace

Generator::Generator(const Pipeline& pipeline, Backend& backend, WeightStore& weights, const RequestOptions& options,
                     std::shared_ptr<PromptReader> reader)
    : pipeline_(pipeline), request_(pipeline.resolve(options)), reader_(std::move(reader)) {
  const Target target = backend.properties().target;
  const bool has_reader = reader_ != nullptr;
  if (!has_reader) reader_ = std::make_shared<PromptReader>(pipeline, request_.text_tokens, options.switches, target);
  if (request_.reference_tokens() != 0)
    encode_ = compile_coder("encode", pipeline.encoder(), request_, options.switches, target);
  denoise_ = {.name = "denoise", .compiled = compile_denoise(pipeline, request_, options.switches, target)};
  decode_ = compile_coder("decode", pipeline.decoder(), request_, options.switches, target);

  tell_of_all(denoise_.compiled, device_stages(), options.switches);

  if (options.drops_other_weights) {
    std::vector<const Program*> used;
    for (const DeviceStage* stage : device_stages()) used.push_back(stage->compiled.program.get());
    weights.keep_only(used);
  }
  require_memory(backend, weights, options);
  if (!has_reader) reader_->load(weights, backend);
  for (std::optional<DeviceStage>* const coder : {&encode_, &decode_})
    if (*coder) (*coder)->load(weights, backend);
  denoise_.load(weights, backend);
  pipeline_.set_request_inputs(session(), request_);
}

std::vector<const DeviceStage*> Generator::device_stages() const {
  std::vector<const DeviceStage*> stages = reader_->stages();
  if (encode_) stages.push_back(&*encode_);
  stages.push_back(&denoise_);
  if (decode_) stages.push_back(&*decode_);
  return stages;
}

void Generator::require_memory(Backend& backend, const WeightStore& weights, const RequestOptions& options) const {
  const auto compile_other = [&](const SwitchSet& switches, const RequestSize& size) {
    Request smaller = request_;
    smaller.images = size.images;
    smaller.token_rows = size.token_rows;
    smaller.token_columns = size.token_columns;
    return compile_denoise(pipeline_, smaller, switches, backend.properties().target);
  };
  FittedRequest request{
      .model = pipeline_.name(),
      .switches = options.switches,
      .size = {.images = request_.images, .token_rows = request_.token_rows, .token_columns = request_.token_columns},
      .compile = compile_other,
      .suggests = options.suggests_what_fits};
  for (const DeviceStage* stage : device_stages())
    if (stage != &denoise_ && stage->session == nullptr) request.beside.push_back(stage->compiled.program.get());
  require_fit(*denoise_.compiled.program, request, weights, backend);
}

template <class Body>
void Generator::run_stage(std::string name, std::size_t bytes, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  took_.push_back({.name = std::move(name), .milliseconds = milliseconds_since(start), .bytes = bytes});
}

Conditioning Generator::make_conditioning(std::span<const ImageRequest> images) {
  Conditioning conditioning;
  for (std::size_t reader = 0; reader < pipeline_.text_readers().size(); ++reader) {
    std::vector<std::string> texts;
    if (request_.classifier_free_guidance)
      for (const ImageRequest& image : images) texts.push_back(negative_prompt_of(image, reader));
    for (const ImageRequest& image : images) texts.push_back(prompt_of(pipeline_, image, reader));
    conditioning.texts.push_back(reader_->read(reader, texts, took_));
  }
  if (encode_)
    run_stage("encode", encode_->session->activation_reserved_bytes(), [&] {
      for (const ImageRequest& image : images)
        conditioning.references.push_back(encode_->run("pixels", image.reference, "latents"));
    });
  return conditioning;
}

HostTensor Generator::generate(std::span<const ImageRequest> images, const IterationObserver& observer) {
  HR_CHECK_EQ(static_cast<std::int64_t>(images.size()), request_.images);
  took_.clear();
  const Conditioning conditioning = make_conditioning(images);
  run_stage("inputs", 0, [&] { pipeline_.set_image_inputs(session(), request_, images, conditioning); });
  run_stage("denoise", session().activation_reserved_bytes(), [&] { session().run(observer); });
  return session().output("latents");
}

const Shape& Generator::latents_shape() const {
  const Graph& graph = session().program().graph;
  return graph.type(graph.find(ValueKind::kState, "latents")).shape;
}

HostTensor Generator::decode(const HostTensor& latents) {
  HostTensor pixels;
  if (!decode_) {
    run_stage("decode", 0, [&] { pixels = pipeline_.decode(latents, request_); });
    return pixels;
  }
  run_stage("decode", decode_->session->activation_reserved_bytes(), [&] {
    std::vector<HostTensor> decoded;
    for (const HostTensor& one : unstack(latents)) decoded.push_back(decode_->run("latents", one, "pixels"));
    pixels = stack(decoded);
  });
  return pixels;
}

}  // namespace headroom
