#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/autoencoders/autoencoder_kl.hpp"
#include "models/component.hpp"

namespace headroom {

/// The configuration of an `AutoencoderKLQwenImage`, under the names of its config.json.
struct AutoencoderKLQwenImageConfig {
  std::int64_t input_channels = 3;
  std::int64_t base_dim = 96;
  std::int64_t z_dim = 16;
  std::vector<std::int64_t> dim_mult = {1, 2, 4, 4};  ///< widths in units of base_dim, from the image's side on
  std::int64_t num_res_blocks = 2;                    ///< per level of the encoder; the decoder has one more
  std::vector<double> latents_mean, latents_std;      ///< of each channel

  /// Pixels along one side of a latent.
  [[nodiscard]] std::int64_t scale() const { return std::int64_t{1} << (dim_mult.size() - 1); }
};

/// Reads config.json as written by diffusers. Throws Error that names the key and the value for another class, for
/// attention outside the middle, and for sizes that do not fit each other.
[[nodiscard]] AutoencoderKLQwenImageConfig parse_autoencoder_kl_qwen_image_config(const nlohmann::json& config);
/// Qwen-Image's: 124.6 million parameters, without those of time.
[[nodiscard]] nlohmann::json qwen_image_vae_config();

/// The encoder of diffusers' AutoencoderKLQwenImage for one frame, in plain ops. Its convolutions are causal in time
/// and pad with frames of zeros, so that with one frame only their last tap counts: they are convolutions of images
/// with that part of the weights. It maps image[batch, input_channels, h, w] in [-1, 1] to the distribution of its
/// latents, [batch, z_dim, h/scale, w/scale], with logvar clamped to [-30, 20].
[[nodiscard]] Posterior build_autoencoder_kl_qwen_image_encode(Builder& builder,
                                                               const AutoencoderKLQwenImageConfig& config,
                                                               ValueId image, const ParamSource& params);
/// The decoder: latents[batch, z_dim, h, w] in the scale of the encoder's to the image [batch, input_channels, scale h,
/// scale w], clamped to [-1, 1].
[[nodiscard]] ValueId build_autoencoder_kl_qwen_image_decode(Builder& builder,
                                                             const AutoencoderKLQwenImageConfig& config,
                                                             ValueId latents, const ParamSource& params);

/// Its passes: `decode` maps latents to `decoded`, `encode` an image to `mean` and `logvar`.
[[nodiscard]] ComponentClass autoencoder_kl_qwen_image_class();

}  // namespace headroom
