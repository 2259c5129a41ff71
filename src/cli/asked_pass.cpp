#include "cli/asked_pass.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

PassMaker transformer_passes(const Model& model, GeneratorOptions request, const ImageSize& size) {
  resolve_size(model, size, request);
  return [&model, asked = make_request(model, request)](std::int64_t rows) {
    DenoiseRequest taller = asked;
    taller.token_rows += rows;
    return make_forward_pass(model, taller);
  };
}

PassMaker image_passes(const Component& component, const ComponentPass& pass, const GeneratorOptions& request,
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

}  // namespace

void add_pass_option(CLI::App& command, std::string& pass) {
  command.add_option("--pass", pass, "of a network with several, which one: decode, encode, ...");
}

PassMaker asked_passes(const Engine& engine, const std::string& pass, const GeneratorOptions& request,
                       const ImageSize& size) {
  const Component& network = engine.network();
  const ComponentPass& named = pass.empty() ? network.kind->passes.front() : pass_named(*network.kind, pass);
  return engine.model ? transformer_passes(*engine.model, request, size) : image_passes(network, named, request, size);
}

}  // namespace headroom
