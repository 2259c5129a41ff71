#include "models/autoencoders/autoencoder_kl_flux2.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kSide = 2;  // latents along one side of a patch

/// The statistics of patches, [c, 1, 2, 1, 2] each, for latents [b, c, rows, 2, columns, 2].
struct LatentStatistics {
  ValueId mean, deviation;
};

LatentStatistics read_statistics(Builder& b, const AutoencoderKLConfig& config, const ParamSource& params) {
  const auto scope = b.scope("bn");
  const std::int64_t channels = config.latent_channels;
  const auto read = [&](std::string_view name) {
    return b.reshape(read_param(b, params, name, {channels * kSide * kSide}), {channels, 1, kSide, 1, kSide});
  };
  const ValueId mean = read("running_mean");
  return {mean, b.sqrt(b.add_scalar(read("running_var"), config.batch_norm_eps))};
}

ValueId in_patches(Builder& b, ValueId z) {
  const Shape shape = b.shape(z);  // [b, c, h, w]
  if (shape[2] % kSide != 0 || shape[3] % kSide != 0)
    fail("latents are {} x {}, expected even sides: they are normalized in patches of 2 x 2", shape[3], shape[2]);
  return b.reshape(z, {shape[0], shape[1], shape[2] / kSide, kSide, shape[3] / kSide, kSide});
}

ValueId as_image(Builder& b, ValueId patches, const Shape& shape) {
  return b.reshape(patches, {shape.dims().begin(), shape.dims().end()});
}

/// The number of batches that the statistics are of.
bool is_unread_by_flux2_vae(std::string_view tensor) { return tensor == "bn.num_batches_tracked"; }

InputShapes normalize_shapes(const nlohmann::json& json, const PassSize& size) {
  return {{"mean", autoencoder_latent_shapes(json, size).at("latents")}};
}

/// From the latents that the encoder gives to those that a denoiser reads.
Graph build_normalize(const nlohmann::json& json, const InputShapes& given, const ParamSource& params) {
  const AutoencoderKLConfig config = parse_autoencoder_kl_config(json);
  const Shape& shape = require_shape(given, "mean", {{"batch"}, {"", config.latent_channels}, {"height"}, {"width"}});
  Graph graph("autoencoder_kl_flux2_normalize");
  Builder builder(graph);
  const ValueId latents = graph.add_input("mean", TensorType{.shape = shape});
  graph.add_output("normalized", normalize_flux2_latents(builder, config, latents, params));
  return graph;
}

}  // namespace

ValueId normalize_flux2_latents(Builder& b, const AutoencoderKLConfig& config, ValueId z, const ParamSource& params) {
  const Shape shape = b.shape(z);
  const auto [mean, deviation] = read_statistics(b, config, params);
  return as_image(b, b.div(b.sub(in_patches(b, z), mean), deviation), shape);
}

ValueId denormalize_flux2_latents(Builder& b, const AutoencoderKLConfig& config, ValueId z, const ParamSource& params) {
  const Shape shape = b.shape(z);
  const auto [mean, deviation] = read_statistics(b, config, params);
  return as_image(b, b.add(b.mul(in_patches(b, z), deviation), mean), shape);
}

ComponentClass autoencoder_kl_flux2_class() {
  ComponentClass flux2 = autoencoder_kl_class();
  flux2.name = kAutoencoderKLFlux2;
  flux2.passes.push_back({"normalize", {"mean"}, normalize_shapes, build_normalize});
  flux2.named = {{"flux-2-vae",
                  "the autoencoder of FLUX.2 and FLUX.3; its checkpoint does not ship: give a folder or "
                  "--random-weights",
                  flux2_vae_config}};
  flux2.is_unread = is_unread_by_flux2_vae;
  flux2.adapters = {};
  flux2.infer = nullptr;
  return flux2;
}

}  // namespace headroom
