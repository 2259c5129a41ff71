#include "models/autoencoders/autoencoder_kl.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder.hpp"
#include "models/autoencoders/autoencoder_kl_names.hpp"
#include "models/image_layers.hpp"

namespace headroom {
namespace {

constexpr double kGroupNormEps = 1e-6;

class AutoencoderKL {
 public:
  AutoencoderKL(Builder& builder, const AutoencoderKLConfig& config, const ParamSource& params)
      : b_(builder),
        config_(config),
        widths_(config.block_out_channels),
        decoder_widths_(config.decoder_block_out_channels.empty() ? widths_ : config.decoder_block_out_channels),
        norm_{.groups = config.norm_num_groups, .eps = kGroupNormEps},
        layers_(builder, params, norm_) {}

  /// image[b, c, h, w] -> moments[b, 2 latent, h/scale, w/scale]
  ValueId encode(ValueId image) {
    const ValueId moments = encoder(image);
    return config_.use_quant_conv ? layers_.conv("quant_conv", moments, 2 * config_.latent_channels, 1) : moments;
  }

  /// latents[b, latent, h, w] -> image[b, c, scale h, scale w]
  ValueId decode(ValueId latents) {
    return decoder(config_.use_post_quant_conv ? layers_.conv("post_quant_conv", latents, config_.latent_channels, 1)
                                               : latents);
  }

 private:
  ValueId encoder(ValueId x) {
    const auto scope = b_.scope("encoder");
    x = layers_.conv("conv_in", x, widths_.front(), 3, 1);
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      const auto block = b_.scope("down_blocks." + std::to_string(i));
      x = resnets(x, widths_[i], config_.layers_per_block);
      if (i + 1 < widths_.size()) x = layers_.downsample(x, 0);
    }
    x = mid_block(x, widths_.back());
    return layers_.conv("conv_out", layers_.norm_silu("conv_norm_out", x), 2 * config_.latent_channels, 3, 1);
  }

  ValueId decoder(ValueId x) {
    const auto scope = b_.scope("decoder");
    x = mid_block(layers_.conv("conv_in", x, decoder_widths_.back(), 3, 1), decoder_widths_.back());
    for (std::size_t i = 0; i < decoder_widths_.size(); ++i) {
      const auto block = b_.scope("up_blocks." + std::to_string(i));
      x = resnets(x, decoder_widths_[decoder_widths_.size() - 1 - i], config_.layers_per_block + 1);
      if (i + 1 < decoder_widths_.size())
        x = layers_.upsample(x, {2 * b_.shape(x)[2], 2 * b_.shape(x)[3]}, b_.shape(x)[1]);
    }
    return layers_.conv("conv_out", layers_.norm_silu("conv_norm_out", x), config_.out_channels, 3, 1);
  }

  ValueId mid_block(ValueId x, std::int64_t width) {
    const auto block = b_.scope("mid_block");
    x = layers_.resnet("resnets.0", x, width);
    if (config_.mid_block_add_attention) x = layers_.pixel_attention("attentions.0", x, 1, norm_);
    return layers_.resnet("resnets.1", x, width);
  }

  ValueId resnets(ValueId x, std::int64_t width, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) x = layers_.resnet("resnets." + std::to_string(j), x, width);
    return x;
  }

  Builder& b_;
  const AutoencoderKLConfig& config_;
  const std::vector<std::int64_t>&widths_, &decoder_widths_;
  ImageNorm norm_;
  ImageLayers layers_;
};

/// Coding in overlapping tiles. Each tile takes `side` pixels or latents of the input, and the next begins `step`
/// further. In the output the first `blended` rows and columns are blended with the neighbour's last ones, and `kept`
/// remain.
struct Tiles {
  std::int64_t side, step, blended, kept;
};

/// b, with its first `extent` positions along an axis blended with the last ones of a: linearly, from all of a to all
/// of b.
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

/// Row by row; each tile is blended with the blended tile above, then with the blended tile on its left.
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
      .passes = {{"decode", {"latents"}, autoencoder_latent_shapes, build_decode<Tiling::kOff>},
                 {"encode", {"image"}, autoencoder_image_shapes, build_encode<Tiling::kOff>},
                 {"decode-tiled", {"latents"}, autoencoder_latent_shapes, build_decode<Tiling::kOn>},
                 {"encode-tiled", {"image"}, autoencoder_image_shapes, build_encode<Tiling::kOn>}},
      .named = {{"flux-vae", "FLUX.1's autoencoder; its checkpoint does not ship: give a folder or --random-weights",
                 flux_vae_config}},
      .range = autoencoder_range,
      .adapters = autoencoder_kl_names(),
      .infer = infer_autoencoder_kl_config};
}

}  // namespace headroom
