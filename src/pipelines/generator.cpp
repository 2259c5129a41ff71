#include "pipelines/generator.hpp"

#include <chrono>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "run/fit.hpp"

namespace headroom {

Generator::Generator(const Pipeline& pipeline, Backend& backend, WeightStore& weights, const RequestOptions& options)
    : pipeline_(pipeline),
      request_(pipeline.resolve(options)),
      compiled_(compile_denoise(pipeline, request_, options.switches, backend.properties().target)) {
  if (options.drops_other_weights) weights.keep_only(*compiled_.program);
  require_memory(backend, weights, options);
  session_ = std::make_unique<Session>(compiled_.program, weights, backend);
  pipeline_.set_request_inputs(*session_, request_);
}

void Generator::require_memory(Backend& backend, const WeightStore& weights, const RequestOptions& options) const {
  const auto compile_other = [&](const SwitchSet& switches, const RequestSize& size) {
    Request smaller = request_;
    smaller.images = size.images;
    smaller.token_rows = size.token_rows;
    smaller.token_columns = size.token_columns;
    return compile_denoise(pipeline_, smaller, switches, backend.properties().target);
  };
  const FittedRequest request{
      .model = pipeline_.name(),
      .switches = options.switches,
      .size = {.images = request_.images, .token_rows = request_.token_rows, .token_columns = request_.token_columns},
      .compile = compile_other,
      .suggests = options.suggests_what_fits};
  require_fit(*compiled_.program, request, weights, backend);
}

template <class Body>
void Generator::run_stage(std::string_view name, std::size_t bytes, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  stages_.push_back({.name = name, .milliseconds = milliseconds_since(start), .bytes = bytes});
}

HostTensor Generator::generate(std::span<const ImageRequest> images, const IterationObserver& observer) {
  HR_CHECK_EQ(static_cast<std::int64_t>(images.size()), request_.images);
  stages_.clear();
  run_stage("prompt", 0, [&] { pipeline_.set_image_inputs(*session_, request_, images); });
  run_stage("denoise", session_->activation_reserved_bytes(), [&] { session_->run(observer); });
  return session_->output("latents");
}

const Shape& Generator::latents_shape() const {
  const Graph& graph = session_->program().graph;
  return graph.type(graph.find(ValueKind::kState, "latents")).shape;
}

HostTensor Generator::decode(const HostTensor& latents) {
  HostTensor pixels;
  run_stage("decode", 0, [&] { pixels = pipeline_.decode(latents, request_); });
  return pixels;
}

}  // namespace headroom
