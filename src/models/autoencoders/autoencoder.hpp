#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "models/component.hpp"

namespace headroom {

/// What codes images as latents, an AutoencoderKL or an AutoencoderTiny: all that a pipeline needs of its `vae`. Latents are as a denoiser
/// has them, of about unit variance.
struct Autoencoder {
  std::int64_t in_channels = 3;  ///< of an image
  std::int64_t latent_channels = 4;
  std::int64_t scale = 8;  ///< pixels along a side of one latent
  /// image[b, in_channels, h, w] in [-1, 1] to its latents, [b, latent_channels, h/scale, w/scale]; of a distribution its mean.
  std::function<ValueId(Builder& builder, ValueId image, const ParamSource& params)> encode;
  /// latents[b, latent_channels, h, w] to the image in about [-1, 1], [b, channels, scale h, scale w].
  std::function<ValueId(Builder& builder, ValueId latents, const ParamSource& params)> decode;
};

/// Reads config.json. Throws Error where it is of another class, or not one that can be run.
[[nodiscard]] Autoencoder parse_autoencoder(const nlohmann::json& config);

/// Of their passes: `image` and `latents` for an image of that size, and what they may hold.
[[nodiscard]] InputShapes autoencoder_image_shapes(const nlohmann::json& config, const PassSize& size);
[[nodiscard]] InputShapes autoencoder_latent_shapes(const nlohmann::json& config, const PassSize& size);
[[nodiscard]] std::optional<InputRange> autoencoder_range(const nlohmann::json& config, std::string_view input);

}  // namespace headroom
