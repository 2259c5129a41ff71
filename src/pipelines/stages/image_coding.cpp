#include "pipelines/stages/image_coding.hpp"

#include "ir/builder.hpp"

namespace headroom {
namespace {

/// [1, channels, rows side, columns side] -> [1, rows columns, channels side side]
ValueId to_tokens(Builder& b, ValueId z, LatentForm form) {
  const Shape shape = b.shape(z);
  const std::int64_t side = latents_along_token(form);
  const std::int64_t channels = shape[1], rows = shape[2] / side, columns = shape[3] / side;
  const ValueId split = b.reshape(z, {1, channels, rows, side, columns, side});
  const ValueId patches = form == LatentForm::kTokensByLatent ? b.transpose(split, {0, 2, 4, 3, 5, 1})
                                                              : b.transpose(split, {0, 2, 4, 1, 3, 5});
  return b.reshape(patches, {1, rows * columns, channels * side * side});
}

/// The inverse.
ValueId from_tokens(Builder& b, ValueId tokens, std::int64_t rows, std::int64_t columns, LatentForm form) {
  const std::int64_t side = latents_along_token(form), channels = b.shape(tokens)[2] / (side * side);
  const ValueId patches =
      form == LatentForm::kTokensByLatent
          ? b.transpose(b.reshape(tokens, {1, rows, columns, side, side, channels}), {0, 5, 1, 3, 2, 4})
          : b.transpose(b.reshape(tokens, {1, rows, columns, channels, side, side}), {0, 3, 1, 4, 2, 5});
  return b.reshape(patches, {1, channels, rows * side, columns * side});
}

}  // namespace

Shape latents_shape(LatentForm form, std::int64_t token_channels, std::int64_t rows, std::int64_t columns) {
  if (form == LatentForm::kImage) return {token_channels, rows, columns};
  return {rows * columns, token_channels};
}

Shape with_batch(std::int64_t images, const Shape& of_one) {
  Shape shape{images};
  for (const std::int64_t extent : of_one.dims()) shape.push_back(extent);
  return shape;
}

Graph build_image_decode(const Autoencoder& autoencoder, LatentForm form, std::int64_t rows, std::int64_t columns,
                         const ParamSource& params) {
  const std::int64_t side = latents_along_token(form);
  Graph graph("image_decode");
  Builder b(graph);
  const Shape shape = latents_shape(form, autoencoder.latent_channels * side * side, rows, columns);
  ValueId latents = graph.add_input("latents", TensorType{.shape = with_batch(1, shape)});
  if (form != LatentForm::kImage) latents = from_tokens(b, latents, rows, columns, form);
  graph.add_output("pixels", autoencoder.decode(b, latents, params));
  return graph;
}

Graph build_image_encode(const Autoencoder& autoencoder, LatentForm form, std::int64_t rows, std::int64_t columns,
                         const std::optional<NoiseLevel>& level, const ParamSource& params) {
  const std::int64_t side = latents_along_token(form), pixels_along = side * autoencoder.scale;
  Graph graph("image_encode");
  Builder b(graph);
  const Shape shape = {1, autoencoder.in_channels, rows * pixels_along, columns * pixels_along};
  ValueId latents = autoencoder.encode(b, graph.add_input("pixels", TensorType{.shape = shape}), params);
  if (form != LatentForm::kImage) latents = to_tokens(b, latents, form);
  if (level) {
    const ValueId noise = graph.add_input("noise", TensorType{.shape = b.shape(latents)});
    latents = b.add(b.mul_scalar(latents, level->alpha), b.mul_scalar(noise, level->sigma));
  }
  graph.add_output("latents", latents);
  return graph;
}

}  // namespace headroom
