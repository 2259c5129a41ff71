#pragma once

#include <cstdint>
#include <optional>

#include "models/autoencoders/autoencoder.hpp"
#include "pipelines/schedules/noise_schedule.hpp"

namespace headroom {

/// How a denoiser has latents: as the image [batch, channels, rows, columns] that the autoencoder makes, or as tokens [batch, rows *
/// columns, 4 channels], each of which is 2 x 2 of them, channel by channel.
enum class LatentForm : std::uint8_t { kImage, kTokens };

/// Latents along a token: 1 of an image.
[[nodiscard]] inline std::int64_t latents_along_token(LatentForm form) { return form == LatentForm::kTokens ? 2 : 1; }
/// Of one image of so many rows and columns of tokens, without the batch.
[[nodiscard]] Shape latents_shape(LatentForm form, std::int64_t token_channels, std::int64_t rows,
                                  std::int64_t columns);

/// Of so many images, the batch first.
[[nodiscard]] Shape with_batch(std::int64_t images, const Shape& of_one);

/// `latents` [1, ...], as the denoiser leaves them, to the image `pixels` [1, channels, height, width] f32 in about [-1, 1].
[[nodiscard]] Graph build_image_decode(const Autoencoder& autoencoder, LatentForm form, std::int64_t rows,
                                       std::int64_t columns, const ParamSource& params);
/// The other way: `pixels` to `latents`, of a distribution its mean. With a level they are at it: `noise` [1, ...] is then another
/// input.
[[nodiscard]] Graph build_image_encode(const Autoencoder& autoencoder, LatentForm form, std::int64_t rows,
                                       std::int64_t columns, const std::optional<NoiseLevel>& level,
                                       const ParamSource& params);

}  // namespace headroom
