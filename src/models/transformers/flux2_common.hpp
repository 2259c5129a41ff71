#pragma once

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/component.hpp"
#include "models/config.hpp"
#include "models/transformers/flux2.hpp"

namespace headroom {

/// Reads from a config.json what FLUX.2 and FLUX.3 have under the same names: `mlp_ratio`, `axes_dims_rope`,
/// `rope_theta` and `eps`. Heads were read before. Throws Error for sizes that do not fit each other.
template <class Config>
void read_flux2_widths(const nlohmann::json& config, Config& flux) {
  using namespace config;
  flux.mlp_ratio = read_positive(config, "mlp_ratio", flux.mlp_ratio, kMaxLayers);
  if (flux.dim() > kMaxExtent || flux.feed_forward_width() < 1 || flux.feed_forward_width() > kMaxExtent)
    fail("config.json: {} heads of {} and an mlp_ratio of {} are 0 or more than {} wide", flux.num_attention_heads,
         flux.attention_head_dim, flux.mlp_ratio, kMaxExtent);
  flux.axes_dims_rope = read_rope_axes(config, flux.axes_dims_rope, flux.attention_head_dim);
  if (std::ssize(flux.axes_dims_rope) != kFlux2Axes)
    fail("config.json: axes_dims_rope has {} sizes, expected {}: image, row, column and place in the text",
         flux.axes_dims_rope.size(), kFlux2Axes);
  flux.rope_theta = read_positive(config, "rope_theta", flux.rope_theta, kMaxRopeTheta);
  flux.eps = read_positive(config, "eps", flux.eps, 1);
}

/// Shapes of the five inputs of a forward pass that FLUX.2 and FLUX.3 have in common.
template <class Config>
[[nodiscard]] InputShapes flux2_common_shapes(const Config& config, std::int64_t batch, std::int64_t image_tokens,
                                              std::int64_t text_tokens) {
  return {{"hidden_states", {batch, image_tokens, config.in_channels}},
          {"encoder_hidden_states", {batch, text_tokens, config.joint_attention_dim}},
          {"timestep", {batch}},
          {"img_ids", {image_tokens, kFlux2Axes}},
          {"txt_ids", {text_tokens, kFlux2Axes}}};
}

/// Of a pass of that size.
template <class Config>
[[nodiscard]] InputShapes flux2_common_shapes(const Config& config, const PassSize& size) {
  const std::int64_t rows = parts_along("--height", size.height, kFlux2TokenPixels),
                     columns = parts_along("--width", size.width, kFlux2TokenPixels);
  return flux2_common_shapes(config, size.batch, rows * columns, size.text_tokens);
}

/// Adds these inputs to a graph, with the batch and tokens of those that are `given`. Throws Error for other extents
/// than the configuration's.
template <class Inputs, class Config>
[[nodiscard]] Inputs add_flux2_inputs(Graph& graph, const Config& config, const InputShapes& given) {
  const Shape& image = require_shape(given, "hidden_states", {{"batch"}, {"image tokens"}, {"", config.in_channels}});
  const Shape& text = require_shape(given, "encoder_hidden_states",
                                    {{"", image[0]}, {"text tokens"}, {"", config.joint_attention_dim}});
  const InputShapes shapes = flux2_common_shapes(config, image[0], image[1], text[1]);
  const auto input = [&](const char* name) {
    return graph.add_input(name, TensorType{.shape = shapes.find(name)->second});
  };
  return {.hidden_states = input("hidden_states"),
          .encoder_hidden_states = input("encoder_hidden_states"),
          .timestep = input("timestep"),
          .img_ids = input("img_ids"),
          .txt_ids = input("txt_ids")};
}

}  // namespace headroom
