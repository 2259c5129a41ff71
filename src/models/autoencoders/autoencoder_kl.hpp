#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "models/component.hpp"

namespace headroom {

/// The configuration of an `AutoencoderKL`, under the names of its config.json.
struct AutoencoderKLConfig {
  std::int64_t in_channels = 3;
  std::int64_t out_channels = 3;
  std::int64_t latent_channels = 4;
  std::vector<std::int64_t> block_out_channels = {64};        ///< from the image's side on
  std::vector<std::int64_t> decoder_block_out_channels = {};  ///< of the decoder, if they differ
  std::int64_t layers_per_block = 1;  ///< resnets per encoder block; a decoder block has one more
  std::int64_t norm_num_groups = 32;
  std::int64_t sample_size = 32;  ///< side of a tile in pixels, if an image is coded in tiles
  double scaling_factor = 0.18215;
  std::optional<double> shift_factor;
  bool use_quant_conv = true;
  bool use_post_quant_conv = true;
  bool mid_block_add_attention = true;
  double batch_norm_eps = 1e-4;  ///< of an AutoencoderKLFlux2: of the statistics of its latents

  /// Pixels along one side of a latent.
  [[nodiscard]] std::int64_t scale() const { return std::int64_t{1} << (block_out_channels.size() - 1); }
};

/// Reads config.json as written by diffusers. Throws Error that names the key and the value if it is neither an
/// AutoencoderKL nor an AutoencoderKLFlux2, or has block types other than DownEncoderBlock2D and UpDecoderBlock2D.
[[nodiscard]] AutoencoderKLConfig parse_autoencoder_kl_config(const nlohmann::json& config);
/// FLUX.1's: 16 latent channels, 83.8 million parameters.
[[nodiscard]] nlohmann::json flux_vae_config();

/// Whether an image larger than a tile is coded in tiles of sample_size, which overlap by a quarter and are blended
/// there, as in diffusers with use_tiling. This takes less memory and changes the result.
enum class Tiling : bool { kOff, kOn };

/// Latents' distribution, [batch, latent_channels, h/scale, w/scale] each.
struct Posterior {
  ValueId mean, logvar;
};

/// The encoder of diffusers' AutoencoderKL (Rombach et al., "High-resolution image synthesis with latent diffusion
/// models", 2022), in plain ops. It maps image[batch, in_channels, h, w] in [-1, 1] to the distribution of its
/// latents, with logvar clamped to [-30, 20].
[[nodiscard]] Posterior build_autoencoder_kl_encode(Builder& builder, const AutoencoderKLConfig& config, ValueId image,
                                                    const ParamSource& params, Tiling tiling = Tiling::kOff);
/// The decoder: latents[batch, latent_channels, h, w] to the image [batch, out_channels, scale h, scale w]. Latents
/// are in the decoder's scale: z / scaling_factor + shift_factor.
[[nodiscard]] ValueId build_autoencoder_kl_decode(Builder& builder, const AutoencoderKLConfig& config, ValueId latents,
                                                  const ParamSource& params, Tiling tiling = Tiling::kOff);

/// Its passes: `decode` maps latents to `decoded`, `encode` an image to `mean` and `logvar`; both also exist in
/// tiles.
[[nodiscard]] ComponentClass autoencoder_kl_class();

}  // namespace headroom
