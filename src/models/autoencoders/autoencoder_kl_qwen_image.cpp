#include "models/autoencoders/autoencoder_kl_qwen_image.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/attention.hpp"
#include "models/autoencoders/autoencoder.hpp"
#include "models/image_layers.hpp"

namespace headroom {
namespace {

class AutoencoderKLQwenImage {
 public:
  AutoencoderKLQwenImage(Builder& builder, const AutoencoderKLQwenImageConfig& config, const ParamSource& params)
      : b_(builder), config_(config), params_(params), layers_(builder, params) {}

  /// image[b, c, h, w] -> moments[b, 2 z_dim, h/scale, w/scale]
  ValueId encode(ValueId x) {
    {
      const auto scope = b_.scope("encoder");
      x = causal("conv_in", x, width(0), 3);
      std::int64_t number = 0;  // blocks of all levels are one list
      const auto next = [&] { return "down_blocks." + std::to_string(number++); };
      for (std::size_t level = 0; level < config_.dim_mult.size(); ++level) {
        for (std::int64_t i = 0; i < config_.num_res_blocks; ++i) x = resnet(next(), x, width(level));
        if (level + 1 < config_.dim_mult.size()) x = downsample(next(), x);
      }
      x = causal("conv_out", norm_silu("norm_out", mid_block(x)), 2 * config_.z_dim, 3);
    }
    return causal("quant_conv", x, 2 * config_.z_dim, 1);
  }

  /// latents[b, z_dim, h, w] -> image[b, c, scale h, scale w]
  ValueId decode(ValueId z) {
    z = causal("post_quant_conv", z, config_.z_dim, 1);
    const auto scope = b_.scope("decoder");
    const std::size_t levels = config_.dim_mult.size();
    ValueId x = mid_block(causal("conv_in", z, width(levels - 1), 3));
    for (std::size_t i = 0; i < levels; ++i) {
      const auto block = b_.scope("up_blocks." + std::to_string(i));
      for (std::int64_t j = 0; j <= config_.num_res_blocks; ++j)
        x = resnet("resnets." + std::to_string(j), x, width(levels - 1 - i));
      if (i + 1 < levels) x = upsample("upsamplers.0", x);
    }
    return b_.clamp(causal("conv_out", norm_silu("norm_out", x), config_.input_channels, 3), -1, 1);
  }

 private:
  [[nodiscard]] std::int64_t width(std::size_t level) const { return config_.base_dim * config_.dim_mult[level]; }

  /// A causal convolution of one frame: its last tap, [out, in, side, side] of [out, in, side, side, side].
  ValueId causal(std::string_view name, ValueId x, std::int64_t out, std::int64_t side) {
    const auto scope = b_.scope(name);
    const std::int64_t in = b_.shape(x)[1];
    const ValueId taps = param("weight", {out, in, side, side, side}), bias = param("bias", {out});
    const ValueId last = b_.reshape(b_.slice(taps, 2, side - 1, 1), {out, in, side, side});
    return b_.conv2d(x, last, bias, Builder::evenly(1, side / 2));
  }

  /// x / |x| sqrt(c) gamma over the channels, [b, c, h, w] -> [b, h w, c]. `gamma` is the shape in which it is stored.
  ValueId normed_tokens(std::string_view name, ValueId x, const Shape& gamma) {
    constexpr double kSmallestLength = 1e-12;
    const auto scope = b_.scope(name);
    const std::int64_t channels = b_.shape(x)[1];
    const ValueId weight = b_.reshape(param("gamma", gamma), {channels});
    const double eps = kSmallestLength * kSmallestLength / static_cast<double>(channels);
    return b_.rms_norm(layers_.to_tokens(x), weight, eps);
  }

  ValueId norm_silu(std::string_view name, ValueId x) {
    const Shape shape = b_.shape(x);
    return layers_.to_image(b_.silu(normed_tokens(name, x, {shape[1], 1, 1, 1})), shape);
  }

  ValueId resnet(const std::string& name, ValueId x, std::int64_t out) {
    const auto scope = b_.scope(name);
    const ValueId residual = b_.shape(x)[1] == out ? x : causal("conv_shortcut", x, out, 1);
    const ValueId hidden = causal("conv1", norm_silu("norm1", x), out, 3);
    return b_.add(causal("conv2", norm_silu("norm2", hidden), out, 3), residual);
  }

  /// Attention over pixels with one head: x + proj(attention(qkv)).
  ValueId attention_block(ValueId x) {
    const auto scope = b_.scope("attentions.0");
    const Shape shape = b_.shape(x);
    const ValueId normed = layers_.to_image(normed_tokens("norm", x, {shape[1], 1, 1}), shape);
    const ValueId qkv = layers_.to_tokens(layers_.conv("to_qkv", normed, 3 * shape[1], 1));  // [b, h w, 3 c]
    const std::vector<ValueId> parts = b_.chunk(qkv, 3, 2);
    const double scale = 1 / std::sqrt(static_cast<double>(shape[1]));
    const ValueId context = attention(b_, parts[0], parts[1], parts[2], 1, scale);  // [b, h w, c]
    return b_.add(layers_.conv("proj", layers_.to_image(context, shape), shape[1], 1), x);
  }

  ValueId mid_block(ValueId x) {
    const auto scope = b_.scope("mid_block");
    const std::int64_t channels = b_.shape(x)[1];
    return resnet("resnets.1", attention_block(resnet("resnets.0", x, channels)), channels);
  }

  /// Halves height and width; a row and a column of zeros are added below and on the right.
  ValueId downsample(const std::string& name, ValueId x) {
    const auto scope = b_.scope(name);
    return layers_.conv("resample.1", x, b_.shape(x)[1], 3, {.stride = {2, 2}, .padding = {0, 0, 1, 1}});
  }

  /// Doubles height and width and halves the channels.
  ValueId upsample(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    const Shape shape = b_.shape(x);
    return layers_.conv("resample.1", b_.resize2d(x, {2 * shape[2], 2 * shape[3]}), shape[1] / 2, 3, 1);
  }

  ValueId param(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  Builder& b_;
  const AutoencoderKLQwenImageConfig& config_;
  const ParamSource& params_;
  ImageLayers layers_;
};

Graph build_qwen_image_vae_encode(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderKLQwenImageConfig config = parse_autoencoder_kl_qwen_image_config(json);
  const Shape& shape = require_shape(given, "image", {{"batch"}, {"", config.input_channels}, {"height"}, {"width"}});
  Graph graph("autoencoder_kl_qwen_image_encode");
  Builder builder(graph);
  const ValueId image = graph.add_input("image", TensorType{.shape = shape});
  const Posterior posterior = build_autoencoder_kl_qwen_image_encode(builder, config, image, params);
  graph.add_output("mean", posterior.mean);
  graph.add_output("logvar", posterior.logvar);
  return graph;
}

Graph build_qwen_image_vae_decode(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderKLQwenImageConfig config = parse_autoencoder_kl_qwen_image_config(json);
  const Shape& shape = require_shape(given, "latents", {{"batch"}, {"", config.z_dim}, {"rows"}, {"columns"}});
  Graph graph("autoencoder_kl_qwen_image_decode");
  Builder builder(graph);
  const ValueId latents = graph.add_input("latents", TensorType{.shape = shape});
  graph.add_output("decoded", build_autoencoder_kl_qwen_image_decode(builder, config, latents, params));
  return graph;
}

/// Convolutions along time, which one frame does not need.
bool is_unread_by_qwen_image_vae(std::string_view tensor) { return tensor.find(".time_conv.") != tensor.npos; }

}  // namespace

Posterior build_autoencoder_kl_qwen_image_encode(Builder& builder, const AutoencoderKLQwenImageConfig& config,
                                                 ValueId image, const ParamSource& params) {
  const ValueId moments = AutoencoderKLQwenImage(builder, config, params).encode(image);
  const std::vector<ValueId> halves = builder.chunk(moments, 2, 1);
  return {.mean = halves[0], .logvar = builder.clamp(halves[1], -30, 20)};
}

ValueId build_autoencoder_kl_qwen_image_decode(Builder& builder, const AutoencoderKLQwenImageConfig& config,
                                               ValueId latents, const ParamSource& params) {
  return AutoencoderKLQwenImage(builder, config, params).decode(latents);
}

ComponentClass autoencoder_kl_qwen_image_class() {
  return {.name = "AutoencoderKLQwenImage",
          .passes = {{"decode", {"latents"}, autoencoder_latent_shapes, build_qwen_image_vae_decode},
                     {"encode", {"image"}, autoencoder_image_shapes, build_qwen_image_vae_encode}},
          .named = {{"qwen-image-vae",
                     "Qwen-Image's autoencoder; its checkpoint does not ship: give a folder or --random-weights",
                     qwen_image_vae_config}},
          .range = autoencoder_range,
          .is_unread = is_unread_by_qwen_image_vae};
}

}  // namespace headroom
