#pragma once

#include <cstdint>
#include <optional>

#include "models/autoencoders/autoencoder.hpp"
#include "pipelines/schedules/noise_schedule.hpp"

namespace headroom {

/// The layout of the denoiser's latents: the autoencoder's image [batch, channels, rows, columns], or tokens [batch,
/// rows * columns, 4 channels], each of which is a 2 x 2 patch, channel by channel or latent by latent.
enum class LatentForm : std::uint8_t { kImage, kTokens, kTokensByLatent };

/// Latents along one side of a token; 1 for an image.
[[nodiscard]] inline std::int64_t latents_along_token(LatentForm form) { return form == LatentForm::kImage ? 1 : 2; }
/// The shape of one image of this many rows and columns of tokens, without the batch.
[[nodiscard]] Shape latents_shape(LatentForm form, std::int64_t token_channels, std::int64_t rows,
                                  std::int64_t columns);

/// Prepends the batch.
[[nodiscard]] Shape with_batch(std::int64_t images, const Shape& of_one);

/// Decodes `latents` [1, ...], as the denoiser leaves them, to `pixels` [1, channels, height, width] f32 in about
/// [-1, 1].
[[nodiscard]] Graph build_image_decode(const Autoencoder& autoencoder, LatentForm form, std::int64_t rows,
                                       std::int64_t columns, const ParamSource& params);
/// Encodes `pixels` to `latents`; if the encoder gives a distribution, its mean. With a noise level the latents are
/// noised to it, and `noise` [1, ...] is another input.
[[nodiscard]] Graph build_image_encode(const Autoencoder& autoencoder, LatentForm form, std::int64_t rows,
                                       std::int64_t columns, const std::optional<NoiseLevel>& level,
                                       const ParamSource& params);

}  // namespace headroom
