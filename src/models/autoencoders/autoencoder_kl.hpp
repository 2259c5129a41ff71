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
  std::vector<std::int64_t> block_out_channels = {64};  ///< from the image's side
  std::int64_t layers_per_block = 1;                    ///< resnets of an encoder's block; a decoder's has one more
  std::int64_t norm_num_groups = 32;
  std::int64_t sample_size = 32;  ///< side of a tile in pixels, where an image is coded in tiles
  double scaling_factor = 0.18215;
  std::optional<double> shift_factor;
  bool use_quant_conv = true;
  bool use_post_quant_conv = true;
  bool mid_block_add_attention = true;

  /// Pixels along a side of one latent.
  [[nodiscard]] std::int64_t scale() const { return std::int64_t{1} << (block_out_channels.size() - 1); }
};

/// Reads config.json as diffusers writes it. Throws Error that names the key and the value where it is none or has blocks of another
/// kind than DownEncoderBlock2D and UpDecoderBlock2D.
[[nodiscard]] AutoencoderKLConfig parse_autoencoder_kl_config(const nlohmann::json& config);
/// FLUX.1's: 16 latent channels, 83.8 million parameters.
[[nodiscard]] nlohmann::json flux_vae_config();

/// Whether an image larger than a tile is coded in tiles of sample_size that overlap by a quarter and are blended there, as diffusers
/// does with use_tiling: less memory, and another result.
enum class Tiling : bool { kOff, kOn };

/// Latents' distribution, [batch, latent_channels, h/scale, w/scale] each.
struct Posterior {
  ValueId mean, logvar;
};

/// The encoder of diffusers' AutoencoderKL (Rombach et al., "High-resolution image synthesis with latent diffusion models", 2022), in
/// plain ops: image[batch, in_channels, h, w] in [-1, 1] to the distribution of its latents, logvar clamped to [-30, 20].
[[nodiscard]] Posterior build_autoencoder_kl_encode(Builder& builder, const AutoencoderKLConfig& config, ValueId image,
                                                    const ParamSource& params, Tiling tiling = Tiling::kOff);
/// The decoder: latents[batch, latent_channels, h, w] to the image [batch, out_channels, scale h, scale w]. Latents are as the decoder takes
/// them: z / scaling_factor + shift_factor.
[[nodiscard]] ValueId build_autoencoder_kl_decode(Builder& builder, const AutoencoderKLConfig& config, ValueId latents,
                                                  const ParamSource& params, Tiling tiling = Tiling::kOff);

/// Its passes: `decode` latents to `decoded`, `encode` an image to `mean` and `logvar`, and both in tiles.
[[nodiscard]] ComponentClass autoencoder_kl_class();

}  // namespace headroom
