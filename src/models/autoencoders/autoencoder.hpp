#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "models/component.hpp"

namespace headroom {

/// The `vae` of a pipeline, which encodes images as latents. Latents are scaled as a denoiser uses them, to about unit
/// variance.
struct Autoencoder {
  std::int64_t in_channels = 3;  ///< of the image
  std::int64_t latent_channels = 4;
  std::int64_t scale = 8;  ///< pixels along a side of one latent
  /// image[b, in_channels, h, w] in [-1, 1] to its latents, [b, latent_channels, h/scale, w/scale]; the mean if the
  /// encoder gives a distribution.
  std::function<ValueId(Builder& builder, ValueId image, const ParamSource& params)> encode;
  /// latents[b, latent_channels, h, w] to the image in about [-1, 1], [b, channels, scale h, scale w].
  std::function<ValueId(Builder& builder, ValueId latents, const ParamSource& params)> decode;
};

/// Reads config.json. Throws Error for another class, or for a configuration that is not supported.
[[nodiscard]] Autoencoder parse_autoencoder(const nlohmann::json& config);

/// Input shapes of the passes: `image` and `latents` for an image of that size; and the range of their values.
[[nodiscard]] InputShapes autoencoder_image_shapes(const nlohmann::json& config, const PassSize& size);
[[nodiscard]] InputShapes autoencoder_latent_shapes(const nlohmann::json& config, const PassSize& size);
[[nodiscard]] std::optional<InputRange> autoencoder_range(const nlohmann::json& config, std::string_view input);

}  // namespace headroom
