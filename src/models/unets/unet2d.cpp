#include "models/unets/unet2d.hpp"

#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Sines and cosines of the logarithm of t[b] at random frequencies, [b, 2 C] (Song et al., "Score-based generative
/// modeling through stochastic differential equations", 2021).
ValueId fourier_features(Builder& b, const UNet2DConfig& config, ValueId t, const ParamSource& params) {
  const auto scope = b.scope("time_proj");
  const ValueId frequencies = read_param(b, params, "weight", {config.block_out_channels.front()});
  const ValueId angles =
      b.mul_scalar(b.mul(b.reshape(b.log(t), {b.shape(t)[0], 1}), frequencies), 2 * std::numbers::pi);
  return b.concat({b.sin(angles), b.cos(angles)}, 1);
}

InputShapes unet2d_shapes(const nlohmann::json& json, const PassSize& size) {
  return {{"sample", {size.batch, parse_unet2d_config(json).in_channels, size.height, size.width}},
          {"timestep", {size.batch}}};
}

Graph build_unet2d_forward(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const UNet2DConfig config = parse_unet2d_config(json);
  const Shape& shape = require_shape(given, "sample", {{"batch"}, {"", config.in_channels}, {"height"}, {"width"}});
  const std::int64_t least = std::int64_t{1} << (config.levels() - 1);
  if (shape[2] % least != 0 || shape[3] % least != 0)
    fail("'sample' is {}, expected a height and a width that are multiples of {}", shape, least);
  Graph graph("unet2d");
  const ValueId sample = graph.add_input("sample", TensorType{.shape = shape});
  const ValueId timestep =
      graph.add_input("timestep", TensorType{.shape = require_shape(given, "timestep", {{"", shape[0]}})});
  Builder builder(graph);
  graph.add_output("out_sample", build_unet2d(builder, config, sample, timestep, params));
  return graph;
}

PassSize unet2d_size(const nlohmann::json& json) {
  const UNet2DConfig config = parse_unet2d_config(json);
  return {.height = config.sample_size[0], .width = config.sample_size[1]};
}

std::optional<InputRange> unet2d_range(const nlohmann::json& json, std::string_view input) {
  if (input != "timestep") return std::nullopt;
  return parse_unet2d_config(json).has_fourier_time ? InputRange{0.01, 50} : InputRange{0, 1000};
}

}  // namespace

ValueId build_unet2d(Builder& b, const UNet2DConfig& config, ValueId sample, ValueId timestep,
                     const ParamSource& params) {
  ImageLayers layers(b, params);
  const Attend attend = [&](const UNetPlace& place, ValueId x) {
    std::optional<ImageNorm> norm = config.norm();
    if (place.is_middle && !config.mid_norm_groups) norm.reset();
    if (place.is_middle && norm) norm->groups = *config.mid_norm_groups;
    return layers.pixel_attention(place.name, x, config.heads(place.level), norm);
  };
  const ValueId features = config.has_fourier_time
                               ? fourier_features(b, config, timestep, params)
                               : time_sinusoids(b, config, timestep, config.block_out_channels.front());
  const ValueId time = time_embedding(b, config, "time_embedding", features, params);
  const ValueId out = build_unet(b, config, sample, time, attend, params);
  return config.has_fourier_time ? b.div(out, b.reshape(timestep, {b.shape(timestep)[0], 1, 1, 1})) : out;
}

ComponentClass unet2d_class() {
  return {
      .name = kUNet2D,
      .passes = {{"forward", {"sample", "timestep"}, unet2d_shapes, build_unet2d_forward}},
      .named =
          {{"pixel-unet",
            "a U-Net of pixels, 3x64x64, with attention at 32, 16 and 8; there is no checkpoint: give --random-weights",
            pixel_unet_config}},
      .range = unet2d_range,
      .own_size = unet2d_size};
}

}  // namespace headroom
