#pragma once

#include <cstdint>

#include "models/autoencoder.hpp"

/// How FLUX's tokens and its autoencoder's latents [batch, channels, 2 rows, 2 columns] are made of each other: a token is
/// 2 x 2 of them, channel by channel.
namespace headroom {

/// `latents` [1, rows * columns, 4 * latent_channels], as the denoiser leaves them, to the image `pixels` [1, channels,
/// height, width] f32 in about [-1, 1].
[[nodiscard]] Graph build_flux_decode(const Autoencoder& vae, std::int64_t rows, std::int64_t columns,
                                      const ParamSource& params);
/// The other way, to the mean of the latents' distribution: `pixels` to `latents`.
[[nodiscard]] Graph build_flux_encode(const Autoencoder& vae, std::int64_t rows, std::int64_t columns,
                                      const ParamSource& params);

}  // namespace headroom
