#include "models/component.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "models/autoencoder_kl.hpp"

namespace headroom {
namespace {

const Shape& image_of(const InputShapes& given, const char* name, std::int64_t channels) {
  const Shape& shape = given.find(name)->second;
  if (shape.rank() != 4 || shape[1] != channels)
    fail("'{}' is {}, expected [batch, {}, height, width]", name, shape, channels);
  for (const std::int64_t extent : shape.dims())
    if (extent < 1) fail("'{}' is {}, expected no empty dimension", name, shape);
  return shape;
}

std::int64_t latents_along(const char* side, std::int64_t pixels, std::int64_t scale) {
  if (pixels % scale != 0) fail_usage("{} is {}, expected a multiple of {}", side, pixels, scale);
  return pixels / scale;
}

InputShapes encoder_shapes(const nlohmann::json& json, const PassSize& size) {
  const AutoencoderKLConfig config = parse_autoencoder_kl_config(json);
  return {{"image", {size.batch, config.in_channels, size.height, size.width}}};
}

InputShapes decoder_shapes(const nlohmann::json& json, const PassSize& size) {
  const AutoencoderKLConfig config = parse_autoencoder_kl_config(json);
  return {{"latents",
           {size.batch, config.latent_channels, latents_along("--height", size.height, config.scale()),
            latents_along("--width", size.width, config.scale())}}};
}

template <Tiling kTiling>
Graph build_encode(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderKLConfig config = parse_autoencoder_kl_config(json);
  Graph graph("autoencoder_kl_encode");
  Builder builder(graph);
  const ValueId image = graph.add_input("image", TensorType{.shape = image_of(given, "image", config.in_channels)});
  const Posterior posterior = build_autoencoder_kl_encode(builder, config, image, params, kTiling);
  graph.add_output("mean", posterior.mean);
  graph.add_output("logvar", posterior.logvar);
  return graph;
}

template <Tiling kTiling>
Graph build_decode(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderKLConfig config = parse_autoencoder_kl_config(json);
  Graph graph("autoencoder_kl_decode");
  Builder builder(graph);
  const ValueId latents =
      graph.add_input("latents", TensorType{.shape = image_of(given, "latents", config.latent_channels)});
  graph.add_output("decoded", build_autoencoder_kl_decode(builder, config, latents, params, kTiling));
  return graph;
}

}  // namespace

std::span<const ComponentClass> component_classes() {
  static const std::vector<ComponentClass> kClasses = {
      {.name = "AutoencoderKL",
       .passes = {{"decode", {"latents"}, decoder_shapes, build_decode<Tiling::kOff>},
                  {"encode", {"image"}, encoder_shapes, build_encode<Tiling::kOff>},
                  {"decode-tiled", {"latents"}, decoder_shapes, build_decode<Tiling::kOn>},
                  {"encode-tiled", {"image"}, encoder_shapes, build_encode<Tiling::kOn>}},
       .shipped_name = "flux-vae",
       .shipped_config = flux_vae_config},
  };
  return kClasses;
}

const ComponentPass& pass_named(const ComponentClass& component, std::string_view name) {
  const auto found = std::ranges::find(component.passes, name, &ComponentPass::name);
  if (found != component.passes.end()) return *found;
  std::vector<std::string> names;
  for (const ComponentPass& pass : component.passes) names.emplace_back(pass.name);
  fail_usage("{} has no pass '{}': expected one of {}{}", component.name, name, fmt::join(names, ", "),
             did_you_mean(std::string(name), names));
}

const ComponentPass& pass_for(const ComponentClass& component, const InputShapes& given) {
  std::vector<std::string> needs;
  for (const ComponentPass& pass : component.passes) {
    const bool has_all = std::ranges::all_of(pass.inputs, [&](std::string_view name) { return given.contains(name); });
    if (has_all) return pass;
    needs.push_back(fmt::format("{} needs '{}'", pass.name, fmt::join(pass.inputs, "' and '")));
  }
  fail("the tensors given are those of no pass of {}: {}", component.name, fmt::join(needs, ", "));
}

}  // namespace headroom
