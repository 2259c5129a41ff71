#include "pipelines/flux_latents.hpp"

#include "ir/builder.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kPatchSide = 2;

}  // namespace

Graph build_flux_decode(const Autoencoder& vae, std::int64_t rows, std::int64_t columns, const ParamSource& params) {
  const std::int64_t channels = vae.latent_channels;
  Graph graph("flux_decode");
  Builder b(graph);
  const ValueId latents =
      graph.add_input("latents", TensorType{.shape = {1, rows * columns, channels * kPatchSide * kPatchSide}});
  const ValueId patches =
      b.transpose(b.reshape(latents, {1, rows, columns, channels, kPatchSide, kPatchSide}), {0, 3, 1, 4, 2, 5});
  const ValueId z = b.reshape(patches, {1, channels, rows * kPatchSide, columns * kPatchSide});
  graph.add_output("pixels", vae.decode(b, z, params));
  return graph;
}

Graph build_flux_encode(const Autoencoder& vae, std::int64_t rows, std::int64_t columns, const ParamSource& params) {
  const std::int64_t channels = vae.latent_channels, side = kPatchSide * vae.scale;
  Graph graph("flux_encode");
  Builder b(graph);
  const ValueId pixels =
      graph.add_input("pixels", TensorType{.shape = {1, vae.in_channels, rows * side, columns * side}});
  const ValueId z = vae.encode(b, pixels, params);
  const ValueId patches =
      b.transpose(b.reshape(z, {1, channels, rows, kPatchSide, columns, kPatchSide}), {0, 2, 4, 1, 3, 5});
  graph.add_output("latents", b.reshape(patches, {1, rows * columns, channels * kPatchSide * kPatchSide}));
  return graph;
}

}  // namespace headroom
