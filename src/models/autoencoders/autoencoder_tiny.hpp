#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/component.hpp"

namespace headroom {

/// The configuration of an `AutoencoderTiny`, under the names of its config.json. `act_fn` is ReLU.
/// `latent_magnitude` and `latent_shift`, which define how latents are stored as bytes, are not used here.
struct AutoencoderTinyConfig {
  std::int64_t in_channels = 3;
  std::int64_t out_channels = 3;
  std::int64_t latent_channels = 4;
  std::vector<std::int64_t> encoder_block_out_channels = {64, 64, 64, 64};  ///< all equal, as nothing changes the width
  std::vector<std::int64_t> decoder_block_out_channels = {64, 64, 64, 64};
  std::vector<std::int64_t> num_encoder_blocks = {1, 3, 3, 3};  ///< from the image's side on
  std::vector<std::int64_t> num_decoder_blocks = {3, 3, 3, 1};  ///< from the latents' side on
  double scaling_factor = 1;
  double shift_factor = 0;

  /// Pixels along one side of a latent.
  [[nodiscard]] std::int64_t scale() const { return std::int64_t{1} << (num_encoder_blocks.size() - 1); }
};

/// Reads config.json as written by diffusers. Throws Error that names the key and the value if it is no
/// AutoencoderTiny, or if encoder and decoder do not fit each other.
[[nodiscard]] AutoencoderTinyConfig parse_autoencoder_tiny_config(const nlohmann::json& config);
/// TAESD's: 1.22 million parameters each for encoder and decoder, for the latents of Stable Diffusion 1 and 2.
[[nodiscard]] nlohmann::json taesd_config();

/// The encoder of diffusers' AutoencoderTiny (TAESD, https://github.com/madebyollin/taesd), in plain ops. It maps
/// image[batch, in_channels, h, w] in [-1, 1] to its latents [batch, latent_channels, h/scale, w/scale].
[[nodiscard]] ValueId build_autoencoder_tiny_encode(Builder& builder, const AutoencoderTinyConfig& config,
                                                    ValueId image, const ParamSource& params);
/// The decoder: latents[batch, latent_channels, h, w] to the image [batch, out_channels, scale h, scale w], in about
/// [-1, 1].
[[nodiscard]] ValueId build_autoencoder_tiny_decode(Builder& builder, const AutoencoderTinyConfig& config,
                                                    ValueId latents, const ParamSource& params);

/// Its passes: `decode` maps latents to `decoded`, `encode` an image to `encoded`.
[[nodiscard]] ComponentClass autoencoder_tiny_class();

}  // namespace headroom
