#include "models/autoencoders/autoencoder.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder_kl.hpp"
#include "models/autoencoders/autoencoder_tiny.hpp"
#include "models/config.hpp"

namespace headroom {
namespace {

/// A denoiser's latents are (z - shift) * scale of the latents z that the networks produce and consume.
ValueId normalize(Builder& b, ValueId z, double scale, double shift) {
  if (shift != 0) z = b.add_scalar(z, -shift);
  return scale == 1 ? z : b.mul_scalar(z, scale);
}
ValueId denormalize(Builder& b, ValueId z, double scale, double shift) {
  if (scale != 1) z = b.mul_scalar(z, 1 / scale);
  return shift == 0 ? z : b.add_scalar(z, shift);
}

Autoencoder kl_autoencoder(const AutoencoderKLConfig& config) {
  const double scale = config.scaling_factor, shift = config.shift_factor.value_or(0);
  return {.in_channels = config.in_channels,
          .latent_channels = config.latent_channels,
          .scale = config.scale(),
          .encode =
              [=](Builder& b, ValueId image, const ParamSource& params) {
                return normalize(b, build_autoencoder_kl_encode(b, config, image, params).mean, scale, shift);
              },
          .decode =
              [=](Builder& b, ValueId latents, const ParamSource& params) {
                return build_autoencoder_kl_decode(b, config, denormalize(b, latents, scale, shift), params);
              }};
}

Autoencoder tiny_autoencoder(const AutoencoderTinyConfig& config) {
  const double scale = config.scaling_factor, shift = config.shift_factor;
  return {.in_channels = config.in_channels,
          .latent_channels = config.latent_channels,
          .scale = config.scale(),
          .encode =
              [=](Builder& b, ValueId image, const ParamSource& params) {
                return normalize(b, build_autoencoder_tiny_encode(b, config, image, params), scale, shift);
              },
          .decode =
              [=](Builder& b, ValueId latents, const ParamSource& params) {
                return build_autoencoder_tiny_decode(b, config, denormalize(b, latents, scale, shift), params);
              }};
}

}  // namespace

Autoencoder parse_autoencoder(const nlohmann::json& config) {
  const std::string name = config::class_name(config);
  if (name == "AutoencoderKL") return kl_autoencoder(parse_autoencoder_kl_config(config));
  if (name == "AutoencoderTiny") return tiny_autoencoder(parse_autoencoder_tiny_config(config));
  config::refuse_class(config, "\"AutoencoderKL\" or \"AutoencoderTiny\"");
}

InputShapes autoencoder_image_shapes(const nlohmann::json& config, const PassSize& size) {
  return {{"image", {size.batch, parse_autoencoder(config).in_channels, size.height, size.width}}};
}

InputShapes autoencoder_latent_shapes(const nlohmann::json& config, const PassSize& size) {
  const Autoencoder vae = parse_autoencoder(config);
  return {{"latents",
           {size.batch, vae.latent_channels, parts_along("--height", size.height, vae.scale),
            parts_along("--width", size.width, vae.scale)}}};
}

std::optional<InputRange> autoencoder_range(const nlohmann::json& /*config*/, std::string_view input) {
  if (input == "image") return InputRange{-1, 1};
  return std::nullopt;
}

}  // namespace headroom
