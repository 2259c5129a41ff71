#include "models/autoencoders/autoencoder.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder_kl.hpp"
#include "models/autoencoders/autoencoder_kl_flux2.hpp"
#include "models/autoencoders/autoencoder_kl_qwen_image.hpp"
#include "models/autoencoders/autoencoder_tiny.hpp"
#include "models/config.hpp"

namespace headroom {
namespace {

/// A denoiser's latents are (z - shift) * scale of the latents z that the networks produce and consume: one number for
/// all channels, or one for each.
struct LatentScaling {
  std::vector<double> scale, shift;
};

/// The numbers for the channels of z[b, c, h, w].
ValueId by_channel(Builder& b, const std::vector<double>& numbers) {
  return b.constant(numbers, {std::ssize(numbers), 1, 1});
}
bool are_all(const std::vector<double>& numbers, double value) {
  return std::ranges::all_of(numbers, [&](double number) { return number == value; });
}
std::vector<double> mapped(std::vector<double> numbers, double (*function)(double)) {
  std::ranges::transform(numbers, numbers.begin(), function);
  return numbers;
}
ValueId add_by_channel(Builder& b, ValueId z, const std::vector<double>& numbers) {
  if (are_all(numbers, 0)) return z;
  return numbers.size() == 1 ? b.add_scalar(z, numbers[0]) : b.add(z, by_channel(b, numbers));
}
ValueId mul_by_channel(Builder& b, ValueId z, const std::vector<double>& numbers) {
  if (are_all(numbers, 1)) return z;
  return numbers.size() == 1 ? b.mul_scalar(z, numbers[0]) : b.mul(z, by_channel(b, numbers));
}

double negated(double number) { return -number; }
double inverse(double number) { return 1 / number; }

ValueId normalize(Builder& b, ValueId z, const LatentScaling& scaling) {
  return mul_by_channel(b, add_by_channel(b, z, mapped(scaling.shift, negated)), scaling.scale);
}
ValueId denormalize(Builder& b, ValueId z, const LatentScaling& scaling) {
  return add_by_channel(b, mul_by_channel(b, z, mapped(scaling.scale, inverse)), scaling.shift);
}

/// `encode` and `decode` of the network's own latents become those of the denoiser's.
Autoencoder scaled(Autoencoder own, const LatentScaling& scaling) {
  Autoencoder autoencoder = own;
  autoencoder.encode = [encode = std::move(own.encode), scaling](Builder& b, ValueId image, const ParamSource& params) {
    return normalize(b, encode(b, image, params), scaling);
  };
  autoencoder.decode = [decode = std::move(own.decode), scaling](Builder& b, ValueId z, const ParamSource& params) {
    return decode(b, denormalize(b, z, scaling), params);
  };
  return autoencoder;
}

Autoencoder kl_autoencoder(const AutoencoderKLConfig& config) {
  return scaled(
      {.in_channels = config.in_channels,
       .latent_channels = config.latent_channels,
       .scale = config.scale(),
       .encode = [=](Builder& b, ValueId image,
                     const ParamSource& params) { return build_autoencoder_kl_encode(b, config, image, params).mean; },
       .decode = [=](Builder& b, ValueId z,
                     const ParamSource& params) { return build_autoencoder_kl_decode(b, config, z, params); }},
      {.scale = {config.scaling_factor}, .shift = {config.shift_factor.value_or(0)}});
}

/// Its latents are normalized by statistics in the checkpoint.
Autoencoder kl_flux2_autoencoder(const AutoencoderKLConfig& config) {
  Autoencoder autoencoder = kl_autoencoder(config);
  autoencoder.encode = [config, encode = std::move(autoencoder.encode)](Builder& b, ValueId image,
                                                                        const ParamSource& params) {
    return normalize_flux2_latents(b, config, encode(b, image, params), params);
  };
  autoencoder.decode = [config, decode = std::move(autoencoder.decode)](Builder& b, ValueId z,
                                                                        const ParamSource& params) {
    return decode(b, denormalize_flux2_latents(b, config, z, params), params);
  };
  return autoencoder;
}

Autoencoder tiny_autoencoder(const AutoencoderTinyConfig& config) {
  return scaled(
      {.in_channels = config.in_channels,
       .latent_channels = config.latent_channels,
       .scale = config.scale(),
       .encode = [=](Builder& b, ValueId image,
                     const ParamSource& params) { return build_autoencoder_tiny_encode(b, config, image, params); },
       .decode = [=](Builder& b, ValueId z,
                     const ParamSource& params) { return build_autoencoder_tiny_decode(b, config, z, params); }},
      {.scale = {config.scaling_factor}, .shift = {config.shift_factor}});
}

Autoencoder kl_qwen_image_autoencoder(const AutoencoderKLQwenImageConfig& config) {
  return scaled({.in_channels = config.input_channels,
                 .latent_channels = config.z_dim,
                 .scale = config.scale(),
                 .encode =
                     [=](Builder& b, ValueId image, const ParamSource& params) {
                       return build_autoencoder_kl_qwen_image_encode(b, config, image, params).mean;
                     },
                 .decode =
                     [=](Builder& b, ValueId z, const ParamSource& params) {
                       return build_autoencoder_kl_qwen_image_decode(b, config, z, params);
                     }},
                {.scale = mapped(config.latents_std, inverse), .shift = config.latents_mean});
}

}  // namespace

Autoencoder parse_autoencoder(const nlohmann::json& config) {
  const std::string name = config::class_name(config);
  if (name == "AutoencoderKL") return kl_autoencoder(parse_autoencoder_kl_config(config));
  if (name == kAutoencoderKLFlux2) return kl_flux2_autoencoder(parse_autoencoder_kl_config(config));
  if (name == "AutoencoderTiny") return tiny_autoencoder(parse_autoencoder_tiny_config(config));
  if (name == "AutoencoderKLQwenImage")
    return kl_qwen_image_autoencoder(parse_autoencoder_kl_qwen_image_config(config));
  config::refuse_class(config,
                       "\"AutoencoderKL\", \"AutoencoderKLFlux2\", \"AutoencoderKLQwenImage\" or \"AutoencoderTiny\"");
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
