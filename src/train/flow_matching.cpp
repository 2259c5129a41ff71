#include "train/flow_matching.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "base/files/hash.hpp"
#include "models/component.hpp"
#include "models/transformers/flux.hpp"
#include "train/training_config.hpp"

namespace headroom {
namespace {

constexpr double kMiddle = 127.5;  // of the values of a byte

std::uint64_t stream_of(std::string_view what) { return Hasher().add("flow-matching").add(what).digest(); }

double uniform_number(std::uint64_t seed, std::string_view what, std::int64_t number) {
  std::array<float, 1> drawn{};
  fill_uniform(drawn, seed, stream_of(what), static_cast<std::uint64_t>(number));
  return drawn[0];
}

double normal_number(std::uint64_t seed, std::string_view what, std::int64_t number) {
  std::array<float, 1> drawn{};
  fill_normal(drawn, seed, stream_of(what), static_cast<std::uint64_t>(number));
  return drawn[0];
}

/// 0, row and column of each token, as FLUX's pipeline makes them: [rows * columns, 3].
std::vector<double> image_ids(const FlowShape& shape) {
  std::vector<double> ids;
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t column = 0; column < shape.columns; ++column)
      ids.insert(ids.end(), {0, static_cast<double>(row), static_cast<double>(column)});
  return ids;
}

FluxConfig require_flux(const nlohmann::json& model) {
  if (class_of(model).name != kFluxTransformer)
    fail("the objective flow-matching trains a {}, not a {}", kFluxTransformer, class_of(model).name);
  FluxConfig config = parse_flux_config(model);
  if (config.guidance_embeds) fail("the objective flow-matching trains models without guidance_embeds");
  return config;
}

}  // namespace

double noise_level(const FlowOptions& options, std::uint64_t seed, std::int64_t number) {
  constexpr double kLeast = 1e-4;
  const bool is_uniform = uniform_number(seed, "level.kind", number) < options.uniform;
  const double drawn = is_uniform ? uniform_number(seed, "level.uniform", number)
                                  : 1 / (1 + std::exp(-normal_number(seed, "level.normal", number)));
  const double level = std::clamp(drawn, kLeast, 1 - kLeast);
  const double power = std::exp(options.shift);
  return power / (power + (1 / level - 1));
}

Graph flow_matching_loss(const nlohmann::json& model, const FlowShape& shape, const ParamSource& params,
                         std::int64_t micro_batches) {
  const FluxConfig config = require_flux(model);
  const auto& [batch, rows, columns, text_tokens, classes] = shape;
  const std::int64_t tokens = rows * columns, channels = config.in_channels;
  if (config.out_channels != channels)
    fail("out_channels is {}, expected in_channels, {}", config.out_channels, channels);
  if (config.axes_dims_rope.size() != 3) fail("axes_dims_rope has {} axes, expected 3", config.axes_dims_rope.size());
  const Graph network = build_flux_forward(
      config, {.batch = batch, .image_tokens = tokens, .text_tokens = text_tokens, .reference_tokens = 0}, params);

  Graph graph("flow_matching");
  Builder b(graph);
  const ValueId images = graph.add_input("images", TensorType{.dtype = DType::kU8, .shape = {batch, tokens, channels}});
  const ValueId prompts = graph.add_input("prompts", TensorType{.dtype = DType::kI32, .shape = {batch}});
  const ValueId sigmas = graph.add_input("sigmas", TensorType{.shape = {batch}});
  const ValueId noise = graph.add_input("noise", TensorType{.shape = {batch, tokens, channels}});
  const ValueId x0 = b.add_scalar(b.mul_scalar(b.cast(images, DType::kF32), 1 / kMiddle), -1);
  const ValueId velocity = b.sub(noise, x0);
  const ValueId noisy = b.add(x0, b.mul(b.reshape(sigmas, {batch, 1, 1}), velocity));
  const std::int64_t width = config.joint_attention_dim;
  const ValueId states =
      b.param("prompts.encoder_hidden_states", TensorType{.shape = {classes + 1, text_tokens, width}});
  const ValueId pooled =
      b.param("prompts.pooled_projections", TensorType{.shape = {classes + 1, config.pooled_projection_dim}});
  const ValueId text =
      b.reshape(b.gather(b.reshape(states, {classes + 1, text_tokens * width}), prompts), {batch, text_tokens, width});
  const ValueId found =
      append_network(b, network,
                     {{"hidden_states", noisy},
                      {"encoder_hidden_states", text},
                      {"pooled_projections", b.gather(pooled, prompts)},
                      {"timestep", sigmas},
                      {"img_ids", b.constant(image_ids(shape), {tokens, 3})},
                      {"txt_ids", b.constant({0}, {text_tokens, 3})}})[0];  // [batch, tokens, channels]
  const auto scope = b.scope("loss");
  const ValueId error = b.sub(b.cast(found, DType::kF32), velocity);
  graph.add_output("loss", b.mul_scalar(b.sum(b.mul(error, error), {0, 1, 2}),
                                        1 / static_cast<double>(micro_batches * batch * tokens * channels)));
  return graph;
}

FlowMatching::FlowMatching(const TrainingConfig& config)
    : config_(config.model),
      size_(config.size),
      options_(config.flow),
      seed_(config.seed),
      images_(config.data.images, config.data.pad),
      order_(images_.count(), config.seed) {
  const std::int64_t side = options_.patch;
  if (images_.rows() % side != 0 || images_.columns() % side != 0)
    fail("{}: images of {} x {} pixels with their padding, expected multiples of patch, {}", config.data.images.images,
         images_.rows(), images_.columns(), side);
  if (const std::int64_t channels = require_flux(config_).in_channels; channels != side * side)
    fail("the model's in_channels is {}, expected the {} pixels of a patch: objective.patch is {}", channels,
         side * side, side);
  if (config.validation_data.images.images.empty()) return;
  validation_.emplace(config.validation_data.images, config.data.pad);
  if (validation_->rows() != images_.rows() || validation_->columns() != images_.columns() ||
      validation_->classes() > images_.classes())
    fail("{}: other sizes or classes than {}", config.validation_data.images.images, config.data.images.images);
}

Graph FlowMatching::loss(const ParamSource& params, std::int64_t micro_batches) const {
  return flow_matching_loss(config_,
                            {.batch = size_.batch,
                             .rows = images_.rows() / options_.patch,
                             .columns = images_.columns() / options_.patch,
                             .text_tokens = options_.text_tokens,
                             .classes = images_.classes()},
                            params, micro_batches);
}

BatchData FlowMatching::data(std::int64_t step) const {
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < size_.samples(); ++i) {
    const std::int64_t number = step * size_.samples() + i, image = order_.sample(number);
    const bool has_prompt = uniform_number(seed_, "prompt", number) >= options_.no_prompt;
    samples.push_back({.image = image,
                       .prompt = has_prompt ? images_.label(image) : images_.classes(),
                       .sigma = noise_level(options_, seed_, number)});
  }
  return batch_of(images_, size_.micro_batches, samples, "noise " + std::to_string(step));
}

BatchData FlowMatching::validation(std::int64_t index) const {
  constexpr double kGolden = 0.6180339887498949;  // multiples modulo 1 are spread evenly, however many there are
  std::vector<Sample> samples;
  for (std::int64_t i = 0; i < size_.batch; ++i) {
    const std::int64_t number = index * size_.batch + i, image = number % validation_->count();
    const double place = 0.5 + static_cast<double>(number) * kGolden;
    samples.push_back({.image = image, .prompt = validation_->label(image), .sigma = place - std::floor(place)});
  }
  return batch_of(*validation_, 1, samples, "validation " + std::to_string(index));
}

BatchData FlowMatching::batch_of(const LabelledImages& images, std::int64_t micro_batches,
                                 const std::vector<Sample>& samples, std::string_view stream) const {
  const std::int64_t batch = std::ssize(samples) / micro_batches, pixels = images.rows() * images.columns();
  const std::int64_t channels = options_.patch * options_.patch;
  HostTensor values(DType::kU8, {micro_batches, batch, pixels / channels, channels});
  HostTensor prompts(DType::kI32, {micro_batches, batch}), sigmas(DType::kF32, {micro_batches, batch});
  const std::span<std::uint8_t> bytes = values.as<std::uint8_t>();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto at = static_cast<std::size_t>(pixels);
    images.copy_patches(samples[i].image, options_.patch, bytes.subspan(i * at, at));
    prompts.set(static_cast<std::int64_t>(i), static_cast<double>(samples[i].prompt));
    sigmas.set(static_cast<std::int64_t>(i), samples[i].sigma);
  }
  return {.tensors = {{"images", std::move(values)}, {"prompts", std::move(prompts)}, {"sigmas", std::move(sigmas)}},
          .normals = {{"noise", {.seed = seed_, .stream = stream_of(stream)}}}};
}

nlohmann::json FlowMatching::data_identity() const {
  return {{"images", images_.count()}, {"hash", fmt::format("{:016x}", images_.hash())}};
}

}  // namespace headroom
