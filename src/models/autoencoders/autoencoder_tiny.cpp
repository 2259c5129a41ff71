#include "models/autoencoders/autoencoder_tiny.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "models/autoencoders/autoencoder.hpp"

namespace headroom {
namespace {

/// A sequence of layers with consecutive numbers in the checkpoint: `layers.0`, `layers.1` and so on.
class TinyLayers {
 public:
  TinyLayers(Builder& builder, const ParamSource& params) : b_(builder), params_(params) {}

  /// x[b, c, h, w] -> [b, out, h/stride, w/stride], rounded up
  ValueId conv(ValueId x, std::int64_t out, std::int64_t stride = 1, bool has_bias = true) {
    return conv_named(next(), x, out, stride, has_bias);
  }

  /// relu(x + three convolutions of it), `count` times
  ValueId blocks(ValueId x, std::int64_t count) {
    const std::int64_t width = b_.shape(x)[1];
    for (std::int64_t i = 0; i < count; ++i) {
      const auto scope = b_.scope(next() + ".conv");
      const ValueId first = b_.relu(conv_named("0", x, width));                              // [b, width, h, w]
      const ValueId third = conv_named("4", b_.relu(conv_named("2", first, width)), width);  // [b, width, h, w]
      x = b_.relu(b_.add(third, x));
    }
    return x;
  }

  ValueId relu(ValueId x) {
    skip();
    return b_.relu(x);
  }

  /// Repeats each pixel `factor` times along both axes.
  ValueId upsample(ValueId x, std::int64_t factor) {
    const auto scope = b_.scope(next());
    const Shape shape = b_.shape(x);
    return b_.resize2d(x, {factor * shape[2], factor * shape[3]});
  }

 private:
  std::string next() { return "layers." + std::to_string(count_++); }
  void skip() { ++count_; }

  ValueId conv_named(std::string_view name, ValueId x, std::int64_t out, std::int64_t stride = 1,
                     bool has_bias = true) {
    const auto scope = b_.scope(name);
    const ValueId weight = read_param(b_, params_, "weight", {out, b_.shape(x)[1], 3, 3});
    return b_.conv2d(x, weight, has_bias ? read_param(b_, params_, "bias", {out}) : kNoValue,
                     Builder::evenly(stride, 1));
  }

  Builder& b_;
  const ParamSource& params_;
  std::int64_t count_ = 0;
};

Graph build_tiny_encode(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderTinyConfig config = parse_autoencoder_tiny_config(json);
  const Shape& shape = require_shape(given, "image", {{"batch"}, {"", config.in_channels}, {"height"}, {"width"}});
  Graph graph("autoencoder_tiny_encode");
  Builder builder(graph);
  const ValueId image = graph.add_input("image", TensorType{.shape = shape});
  graph.add_output("encoded", build_autoencoder_tiny_encode(builder, config, image, params));
  return graph;
}

Graph build_tiny_decode(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderTinyConfig config = parse_autoencoder_tiny_config(json);
  const Shape& shape =
      require_shape(given, "latents", {{"batch"}, {"", config.latent_channels}, {"height"}, {"width"}});
  Graph graph("autoencoder_tiny_decode");
  Builder builder(graph);
  const ValueId latents = graph.add_input("latents", TensorType{.shape = shape});
  graph.add_output("decoded", build_autoencoder_tiny_decode(builder, config, latents, params));
  return graph;
}

}  // namespace

ValueId build_autoencoder_tiny_encode(Builder& builder, const AutoencoderTinyConfig& config, ValueId image,
                                      const ParamSource& params) {
  const auto scope = builder.scope("encoder");
  TinyLayers layers(builder, params);
  const std::int64_t width = config.encoder_block_out_channels.front();
  ValueId x = builder.mul_scalar(builder.add_scalar(image, 1), 0.5);  // to [0, 1]
  for (std::size_t i = 0; i < config.num_encoder_blocks.size(); ++i) {
    x = i == 0 ? layers.conv(x, width) : layers.conv(x, width, /*stride=*/2, /*has_bias=*/false);
    x = layers.blocks(x, config.num_encoder_blocks[i]);  // [b, width, h >> i, w >> i]
  }
  return layers.conv(x, config.latent_channels);
}

ValueId build_autoencoder_tiny_decode(Builder& builder, const AutoencoderTinyConfig& config, ValueId latents,
                                      const ParamSource& params) {
  constexpr double kLimit = 3;  // of latents, independent of latent_magnitude
  const auto scope = builder.scope("decoder");
  TinyLayers layers(builder, params);
  const std::int64_t width = config.decoder_block_out_channels.front();
  ValueId x = builder.mul_scalar(builder.tanh(builder.mul_scalar(latents, 1 / kLimit)), kLimit);
  x = layers.relu(layers.conv(x, width));
  for (std::size_t i = 0; i < config.num_decoder_blocks.size(); ++i) {
    x = layers.blocks(x, config.num_decoder_blocks[i]);  // [b, width, h << i, w << i]
    if (i + 1 == config.num_decoder_blocks.size()) break;
    x = layers.conv(layers.upsample(x, 2), width, /*stride=*/1, /*has_bias=*/false);
  }
  return builder.add_scalar(builder.mul_scalar(layers.conv(x, config.out_channels), 2), -1);  // from [0, 1]
}

ComponentClass autoencoder_tiny_class() {
  return {.name = "AutoencoderTiny",
          .passes = {{"decode", {"latents"}, autoencoder_latent_shapes, build_tiny_decode},
                     {"encode", {"image"}, autoencoder_image_shapes, build_tiny_encode}},
          .named = {{"taesd",
                     "Stable Diffusion's tiny autoencoder; its checkpoint does not ship: give a folder or "
                     "--random-weights",
                     taesd_config}},
          .range = autoencoder_range};
}

}  // namespace headroom
