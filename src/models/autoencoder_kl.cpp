#include "models/autoencoder_kl.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr double kGroupNormEps = 1e-6;

class AutoencoderKL {
 public:
  AutoencoderKL(Builder& builder, const AutoencoderKLConfig& config, const ParamSource& params)
      : b_(builder), config_(config), params_(params), widths_(config.block_out_channels) {}

  /// image[b, c, h, w] -> moments[b, 2 latent, h/scale, w/scale]
  ValueId encode(ValueId image) {
    const ValueId moments = encoder(image);
    return config_.use_quant_conv ? conv("quant_conv", moments, 2 * config_.latent_channels, 1) : moments;
  }

  /// latents[b, latent, h, w] -> image[b, c, scale h, scale w]
  ValueId decode(ValueId latents) {
    return decoder(config_.use_post_quant_conv ? conv("post_quant_conv", latents, config_.latent_channels, 1)
                                               : latents);
  }

 private:
  ValueId encoder(ValueId x) {
    const auto scope = b_.scope("encoder");
    x = conv("conv_in", x, widths_.front(), 3, 1);
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      const auto block = b_.scope("down_blocks." + std::to_string(i));
      x = resnets(x, widths_[i], config_.layers_per_block);
      if (i + 1 < widths_.size()) x = downsample(x);
    }
    x = mid_block(x);
    return conv("conv_out", norm_silu("conv_norm_out", x), 2 * config_.latent_channels, 3, 1);
  }

  ValueId decoder(ValueId x) {
    const auto scope = b_.scope("decoder");
    x = mid_block(conv("conv_in", x, widths_.back(), 3, 1));
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      const auto block = b_.scope("up_blocks." + std::to_string(i));
      x = resnets(x, widths_[widths_.size() - 1 - i], config_.layers_per_block + 1);
      if (i + 1 < widths_.size()) x = upsample(x);
    }
    return conv("conv_out", norm_silu("conv_norm_out", x), config_.out_channels, 3, 1);
  }

  ValueId mid_block(ValueId x) {
    const auto block = b_.scope("mid_block");
    x = resnet("resnets.0", x, widths_.back());
    if (config_.mid_block_add_attention) x = attention(x);
    return resnet("resnets.1", x, widths_.back());
  }

  ValueId resnets(ValueId x, std::int64_t width, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) x = resnet("resnets." + std::to_string(j), x, width);
    return x;
  }

  ValueId resnet(const std::string& name, ValueId x, std::int64_t width) {
    const auto scope = b_.scope(name);
    // The narrower shortcut first: x, the largest of all, is then gone as soon as it is normalized.
    const ValueId residual = b_.shape(x)[1] == width ? x : conv("conv_shortcut", x, width, 1);
    const ValueId hidden = conv("conv1", norm_silu("norm1", x), width, 3, 1);  // [b, width, h, w]
    return b_.add(residual, conv("conv2", norm_silu("norm2", hidden), width, 3, 1));
  }

  /// Half the height and width, by a zero below and on the right.
  ValueId downsample(ValueId x) {
    return conv("downsamplers.0.conv", x, b_.shape(x)[1], 3, {.stride = {2, 2}, .padding = {0, 0, 1, 1}});
  }

  ValueId upsample(ValueId x) {
    const Shape shape = b_.shape(x);  // [b, c, h, w]
    const ValueId larger = [&] {
      const auto scope = b_.scope("upsamplers.0");
      return b_.resize2d(x, {2 * shape[2], 2 * shape[3]});
    }();
    return conv("upsamplers.0.conv", larger, shape[1], 3, 1);
  }

  /// x + attention of one head over the pixels of x[b, c, h, w].
  ValueId attention(ValueId x) {
    const auto scope = b_.scope("attentions.0");
    const Shape shape = b_.shape(x);
    const std::int64_t batch = shape[0], width = shape[1], tokens = shape[2] * shape[3];
    const ValueId normed = b_.reshape(norm("group_norm", x), {batch, width, tokens});
    const ValueId rows = b_.transpose(normed, {0, 2, 1});  // [b, h w, c]
    const auto head = [&](std::string_view name, std::string_view old) {
      return b_.reshape(linear(name, old, rows, width), {batch, 1, tokens, width});
    };
    const ValueId q = head("to_q", "query"), k = head("to_k", "key"), v = head("to_v", "value");
    const ValueId scores = b_.mul_scalar(b_.matmul(q, k, true), 1 / std::sqrt(static_cast<double>(width)));
    const ValueId seen = b_.reshape(b_.matmul(b_.softmax(scores), v), {batch, tokens, width});
    const ValueId out = linear("to_out.0", "proj_attn", seen, width);  // [b, h w, c]
    return b_.add(b_.reshape(b_.transpose(out, {0, 2, 1}), {batch, width, shape[2], shape[3]}), x);
  }

  ValueId norm(std::string_view name, ValueId x) {
    const auto scope = b_.scope(name);
    const std::int64_t width = b_.shape(x)[1];
    const ValueId weight = param("weight", {width}), bias = param("bias", {width});
    return b_.group_norm(x, config_.norm_num_groups, kGroupNormEps, weight, bias);
  }

  ValueId norm_silu(std::string_view name, ValueId x) { return b_.silu(norm(name, x)); }

  ValueId conv(std::string_view name, ValueId x, std::int64_t out, std::int64_t side, Builder::Convolution how) {
    const auto scope = b_.scope(name);
    const ValueId weight = param("weight", {out, b_.shape(x)[1], side, side}), bias = param("bias", {out});
    return b_.conv2d(x, weight, bias, how);
  }
  ValueId conv(std::string_view name, ValueId x, std::int64_t out, std::int64_t side, std::int64_t padding = 0) {
    return conv(name, x, out, side, Builder::evenly(1, padding));
  }

  /// x[..., in] -> [..., out]; `old` is what checkpoints called it before 2023.
  ValueId linear(std::string_view name, std::string_view old, ValueId x, std::int64_t out) {
    const bool is_old = params_.has && params_.has(fmt::format("{}.{}.weight", b_.path(), old));
    const auto scope = b_.scope(is_old ? old : name);
    const ValueId weight = param("weight", {out, b_.shape(x)[-1]}), bias = param("bias", {out});
    return b_.linear(x, weight, bias);
  }

  ValueId param(std::string_view name, const Shape& shape) { return read_param(b_, params_, name, shape); }

  Builder& b_;
  const AutoencoderKLConfig& config_;
  const ParamSource& params_;
  const std::vector<std::int64_t>& widths_;
};

/// Coding in overlapping tiles. Of what is coded a tile takes `side`, and the next begins `step` further; of what comes out the first
/// `blended` rows and columns are blended with the neighbour's last, and `kept` stay.
struct Tiles {
  std::int64_t side, step, blended, kept;
};

/// b with its first `extent` places along an axis weighed against the last ones of a: linearly, from all of a to all of b.
ValueId blend(Builder& builder, ValueId a, ValueId b, int axis, std::int64_t extent) {
  const std::int64_t a_size = builder.shape(a)[axis], b_size = builder.shape(b)[axis];
  extent = std::min({extent, a_size, b_size});
  if (extent == 0) return b;
  std::vector<double> rising, falling;
  for (std::int64_t i = 0; i < extent; ++i) {
    rising.push_back(static_cast<double>(i) / static_cast<double>(extent));
    falling.push_back(1 - rising.back());
  }
  const Shape shape = axis == 2 ? Shape{extent, 1} : Shape{extent};
  const ValueId tail = builder.slice(a, axis, a_size - extent, extent);
  const ValueId head = builder.slice(b, axis, 0, extent);
  const ValueId mixed = builder.add(builder.mul(tail, builder.constant(falling, shape)),
                                    builder.mul(head, builder.constant(rising, shape)));
  if (extent == b_size) return mixed;
  return builder.concat({mixed, builder.slice(b, axis, extent, b_size - extent)}, axis);
}

/// Row by row; each tile is blended with the one above, then with the one on its left, both as blended.
ValueId code_in_tiles(Builder& builder, ValueId x, const Tiles& tiles, const std::function<ValueId(ValueId)>& code) {
  const Shape shape = builder.shape(x);  // [b, c, h, w]
  std::vector<ValueId> above, rows;
  for (std::int64_t top = 0; top < shape[2]; top += tiles.step) {
    std::vector<ValueId> row, kept;
    for (std::int64_t left = 0; left < shape[3]; left += tiles.step) {
      const ValueId lines = builder.slice(x, 2, top, std::min(tiles.side, shape[2] - top));
      ValueId tile = code(builder.slice(lines, 3, left, std::min(tiles.side, shape[3] - left)));
      if (!above.empty()) tile = blend(builder, above[row.size()], tile, 2, tiles.blended);
      if (!row.empty()) tile = blend(builder, row.back(), tile, 3, tiles.blended);
      row.push_back(tile);
      const Shape coded = builder.shape(tile);
      const ValueId upper = builder.slice(tile, 2, 0, std::min(coded[2], tiles.kept));
      kept.push_back(builder.slice(upper, 3, 0, std::min(coded[3], tiles.kept)));
    }
    rows.push_back(builder.concat(kept, 3));
    above = std::move(row);
  }
  return builder.concat(rows, 2);
}

bool exceeds(const Builder& builder, ValueId x, std::int64_t side) {
  return builder.shape(x)[2] > side || builder.shape(x)[3] > side;
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
  const Shape& shape = require_shape(given, "image", {{"batch"}, {"", config.in_channels}, {"height"}, {"width"}});
  Graph graph("autoencoder_kl_encode");
  Builder builder(graph);
  const ValueId image = graph.add_input("image", TensorType{.shape = shape});
  const Posterior posterior = build_autoencoder_kl_encode(builder, config, image, params, kTiling);
  graph.add_output("mean", posterior.mean);
  graph.add_output("logvar", posterior.logvar);
  return graph;
}

template <Tiling kTiling>
Graph build_decode(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderKLConfig config = parse_autoencoder_kl_config(json);
  const Shape& shape =
      require_shape(given, "latents", {{"batch"}, {"", config.latent_channels}, {"height"}, {"width"}});
  Graph graph("autoencoder_kl_decode");
  Builder builder(graph);
  const ValueId latents = graph.add_input("latents", TensorType{.shape = shape});
  graph.add_output("decoded", build_autoencoder_kl_decode(builder, config, latents, params, kTiling));
  return graph;
}

std::optional<InputRange> vae_input_range(const nlohmann::json& /*config*/, std::string_view input) {
  if (input == "image") return InputRange{-1, 1};
  return std::nullopt;
}

}  // namespace

Posterior build_autoencoder_kl_encode(Builder& builder, const AutoencoderKLConfig& config, ValueId image,
                                      const ParamSource& params, Tiling tiling) {
  AutoencoderKL vae(builder, config, params);
  const std::int64_t tile = config.sample_size / config.scale(), blended = tile / 4;  // in latents
  const auto encode = [&](ValueId x) { return vae.encode(x); };
  const ValueId moments = tiling == Tiling::kOn && exceeds(builder, image, config.sample_size)
                              ? code_in_tiles(builder, image,
                                              {.side = config.sample_size,
                                               .step = config.sample_size * 3 / 4,
                                               .blended = blended,
                                               .kept = tile - blended},
                                              encode)
                              : encode(image);
  const std::vector<ValueId> halves = builder.chunk(moments, 2, 1);
  return {.mean = halves[0], .logvar = builder.clamp(halves[1], -30, 20)};
}

ValueId build_autoencoder_kl_decode(Builder& builder, const AutoencoderKLConfig& config, ValueId latents,
                                    const ParamSource& params, Tiling tiling) {
  AutoencoderKL vae(builder, config, params);
  const std::int64_t tile = config.sample_size / config.scale(), blended = config.sample_size / 4;  // in pixels
  const auto decode = [&](ValueId z) { return vae.decode(z); };
  if (tiling == Tiling::kOff || !exceeds(builder, latents, tile)) return decode(latents);
  return code_in_tiles(builder, latents,
                       {.side = tile, .step = tile * 3 / 4, .blended = blended, .kept = config.sample_size - blended},
                       decode);
}

ComponentClass autoencoder_kl_class() {
  return {
      .name = "AutoencoderKL",
      .passes = {{"decode", {"latents"}, decoder_shapes, build_decode<Tiling::kOff>},
                 {"encode", {"image"}, encoder_shapes, build_encode<Tiling::kOff>},
                 {"decode-tiled", {"latents"}, decoder_shapes, build_decode<Tiling::kOn>},
                 {"encode-tiled", {"image"}, encoder_shapes, build_encode<Tiling::kOn>}},
      .named = {{"flux-vae", "FLUX.1's autoencoder; its checkpoint does not ship: give a folder or --random-weights",
                 flux_vae_config}},
      .range = vae_input_range};
}

}  // namespace headroom
