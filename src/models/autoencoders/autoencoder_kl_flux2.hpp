#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "models/autoencoders/autoencoder_kl.hpp"

namespace headroom {

inline constexpr std::string_view kAutoencoderKLFlux2 = "AutoencoderKLFlux2";

/// The autoencoder of FLUX.2 and FLUX.3: 32 latent channels, 84.0 million parameters.
[[nodiscard]] nlohmann::json flux2_vae_config();

/// Latents z[b, c, h, w] of the encoder in the scale of the denoiser, and back. A batch norm's running statistics are
/// those of the 4 c channels of patches of 2 x 2, in the order (channel, row, column). Height and width are even.
[[nodiscard]] ValueId normalize_flux2_latents(Builder& builder, const AutoencoderKLConfig& config, ValueId z,
                                              const ParamSource& params);
[[nodiscard]] ValueId denormalize_flux2_latents(Builder& builder, const AutoencoderKLConfig& config, ValueId z,
                                                const ParamSource& params);

/// The passes are those of AutoencoderKL, which do not read the statistics, and `normalize`.
[[nodiscard]] ComponentClass autoencoder_kl_flux2_class();

}  // namespace headroom
