#include "pipelines/flux_latents.hpp"

#include "ir/builder.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kPatchSide = 2;

/// How the decoder takes latents of unit variance: z / scaling_factor + shift_factor.
ValueId denormalize(Builder& b, const AutoencoderKLConfig& config, ValueId z) {
  return b.add_scalar(b.mul_scalar(z, 1 / config.scaling_factor), config.shift_factor.value_or(0));
}
ValueId normalize(Builder& b, const AutoencoderKLConfig& config, ValueId z) {
  return b.mul_scalar(b.add_scalar(z, -config.shift_factor.value_or(0)), config.scaling_factor);
}

}  // namespace

Graph build_flux_decode(const AutoencoderKLConfig& config, std::int64_t rows, std::int64_t columns,
                        const ParamSource& params) {
  const std::int64_t channels = config.latent_channels;
  Graph graph("flux_decode");
  Builder b(graph);
  const ValueId latents =
      graph.add_input("latents", TensorType{.shape = {1, rows * columns, channels * kPatchSide * kPatchSide}});
  const ValueId patches =
      b.transpose(b.reshape(latents, {1, rows, columns, channels, kPatchSide, kPatchSide}), {0, 3, 1, 4, 2, 5});
  const ValueId z = b.reshape(patches, {1, channels, rows * kPatchSide, columns * kPatchSide});
  graph.add_output("pixels", build_autoencoder_kl_decode(b, config, denormalize(b, config, z), params));
  return graph;
}

Graph build_flux_encode(const AutoencoderKLConfig& config, std::int64_t rows, std::int64_t columns,
                        const ParamSource& params) {
  const std::int64_t channels = config.latent_channels, side = kPatchSide * config.scale();
  Graph graph("flux_encode");
  Builder b(graph);
  const ValueId pixels =
      graph.add_input("pixels", TensorType{.shape = {1, config.in_channels, rows * side, columns * side}});
  const ValueId z = normalize(b, config, build_autoencoder_kl_encode(b, config, pixels, params).mean);
  const ValueId patches =
      b.transpose(b.reshape(z, {1, channels, rows, kPatchSide, columns, kPatchSide}), {0, 2, 4, 1, 3, 5});
  graph.add_output("latents", b.reshape(patches, {1, rows * columns, channels * kPatchSide * kPatchSide}));
  return graph;
}

}  // namespace headroom
