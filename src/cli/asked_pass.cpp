#include "cli/asked_pass.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"

namespace headroom {
namespace {

PassMaker denoiser_passes(const Pipeline& pipeline, RequestOptions request, const ImageSize& size) {
  resolve_size(pipeline, size, request);
  return [&pipeline, asked = pipeline.resolve(request)](std::int64_t rows) {
    Request taller = asked;
    taller.token_rows += rows;
    return pipeline.forward_pass(taller);
  };
}

PassMaker image_passes(const Component& component, const ComponentPass& pass, const RequestOptions& request,
                       const ImageSize& size) {
  if (request.token_rows != 0 || request.token_columns != 0 || request.text_tokens != 0)
    fail_usage("{} works on images: give --height and --width in place of tokens", component.name);
  PassSize asked{.batch = request.images};
  if (size.height > 0) asked.height = size.height;
  if (size.width > 0) asked.width = size.width;
  return [&component, &pass, asked](std::int64_t rows) {
    constexpr std::int64_t kRowPixels = 64;  // a whole number of latents, whatever the network
    PassSize taller = asked;
    taller.height += kRowPixels * rows;
    return make_forward_pass(component, pass, taller);
  };
}

/// Of fewer tokens whatever the rows: a text may be as long as the network takes already.
PassMaker text_passes(const Component& component, const ComponentPass& pass, const RequestOptions& request,
                      const ImageSize& size) {
  if (request.token_rows != 0 || request.token_columns != 0 || size.height > 0 || size.width > 0)
    fail_usage("{} works on text: give --text-tokens in place of the size of an image", component.name);
  const std::int64_t tokens =
      request.text_tokens > 0 ? request.text_tokens : component.kind->text_tokens(component.config);
  return [&component, &pass, batch = request.images, tokens](std::int64_t rows) {
    const std::int64_t shorter = std::max<std::int64_t>(tokens - std::abs(rows), 1);
    return make_forward_pass(component, pass, PassSize{.batch = batch, .text_tokens = shorter});
  };
}

}  // namespace

void add_pass_option(CLI::App& command, std::string& pass) {
  command.add_option("--pass", pass, "of a network with several, which one: decode, encode, hidden-states, ...");
}

PassMaker asked_passes(const Engine& engine, const std::string& pass, const RequestOptions& request,
                       const ImageSize& size) {
  const Component& network = engine.network();
  const ComponentPass& named = pass.empty() ? network.kind->passes.front() : pass_named(*network.kind, pass);
  if (engine.pipeline) return denoiser_passes(*engine.pipeline, request, size);
  const auto passes = network.kind->text_tokens == nullptr ? image_passes : text_passes;
  return passes(network, named, request, size);
}

}  // namespace headroom
