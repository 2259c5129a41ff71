#include "pipelines/flux_pipeline.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "pipelines/flux_denoise.hpp"
#include "pipelines/flux_latents.hpp"
#include "pipelines/kontext_sizes.hpp"
#include "pipelines/sampler_update.hpp"
#include "pipelines/scheduler.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMaxImages = 4096;
constexpr std::int64_t kMaxTokensAlongSide = 1024;  // 16384 pixels of a latent model
constexpr std::int64_t kMaxTextTokens = 8192;
constexpr std::int64_t kMaxPromptTokens = 512;  // FLUX.1 was trained with no more
constexpr std::int64_t kPatch = 2;              // latents along a token
constexpr std::int64_t kMaxSteps = 10'000;
constexpr double kTrainTimesteps = 1000;  // the transformer's timesteps are noise levels

// Random streams of one image, so that its noise never depends on how many images are made with it.
constexpr std::uint64_t kNoiseStream = 0;
constexpr std::uint64_t kPromptStream = 1;

constexpr std::uint64_t kForwardSeed = 0;

std::int64_t in_range(const char* what, std::int64_t value, std::int64_t high) {
  if (value < 1 || value > high) fail_usage("{} is {}, expected 1 to {}", what, value, high);
  return value;
}

HostTensor filled(Shape shape, double value) {
  HostTensor tensor(DType::kF32, shape);
  std::ranges::fill(tensor.as<float>(), static_cast<float>(value));
  return tensor;
}

/// Fills ids of rows * columns tokens as FLUX numbers them: (image, row, column).
void number_tokens(std::span<float> ids, std::int64_t image, std::int64_t columns, std::int64_t axes) {
  for (std::int64_t token = 0; token < std::ssize(ids) / axes; ++token) {
    const std::int64_t numbers[] = {image, token / columns, token % columns};
    for (std::int64_t axis = 0; axis < std::min<std::int64_t>(axes, std::ssize(numbers)); ++axis)
      ids[static_cast<std::size_t>(token * axes + axis)] = static_cast<float>(numbers[axis]);
  }
}

/// img_ids [image_tokens + reference_tokens, axes]: the image that is made is number 0, and one that is edited 1.
HostTensor make_image_ids(const Request& request, std::int64_t axes) {
  HostTensor ids(DType::kF32, {request.image_tokens() + request.reference_tokens(), axes});
  const auto made = static_cast<std::size_t>(request.image_tokens() * axes);
  number_tokens(ids.as<float>().first(made), 0, request.token_columns, axes);
  if (request.reference_tokens() != 0) number_tokens(ids.as<float>().subspan(made), 1, request.reference_columns, axes);
  return ids;
}

/// What is drawn where nobody says, as in a benchmark.
std::vector<std::string> example_prompts() {
  return {"a red fox in snow", "an old lighthouse on a cliff at dusk, oil painting",
          "a bowl of ramen on a wooden table, soft light", "the word headroom written in chalk on a blackboard"};
}

}  // namespace

FluxPipeline::FluxPipeline(FluxParts parts)
    : Pipeline(std::move(parts.components)),
      folder_(std::move(parts.folder)),
      config_(parse_flux_config(denoiser().config)),
      readers_(std::move(parts.readers)),
      scheduler_(std::move(parts.scheduler)),
      defaults_(std::move(parts.defaults)),
      labels_(std::move(parts.labels)),
      is_kontext_(parts.is_kontext) {
  if (const auto vae = std::ranges::find(components(), "vae", &Component::part); vae != components().end())
    vae_ = parse_autoencoder(vae->config);
  if (reads_text() && defaults_.prompts.empty()) defaults_.prompts = example_prompts();
}

std::int64_t FluxPipeline::token_pixels() const {
  if (defaults_.pixels) return defaults_.pixels->patch;
  return vae_ ? kPatch * vae_->scale : kFluxTokenPixels;
}

ImageSize FluxPipeline::reference_size(const ImageSize& image) const {
  return is_kontext_ ? kontext_reference_size(image) : image;
}

ImageSize FluxPipeline::output_size(const ImageSize& asked) const {
  return is_kontext_ ? kontext_output_size(asked, token_pixels()) : asked;
}

std::string FluxPipeline::obstacle_to_images() const {
  if (reads_text()) return {};
  return fmt::format(
      "{} is a transformer alone, which reads no prompts and makes no pixels: give the folder that holds its "
      "pipeline's "
      "model_index.json; bench and ladder work without",
      name());
}

Request FluxPipeline::default_request() const {
  // Of FLUX.1-schnell, which is distilled to few steps and has no guidance, these are what its card asks for.
  const bool is_schnell = reads_text() && !config_.guidance_embeds;
  Request request{.text_tokens = defaults_.text_tokens.value_or(is_schnell ? 256 : 512),
                  .steps = defaults_.steps.value_or(is_schnell ? 4 : 28),
                  .guidance_scale = defaults_.guidance_scale.value_or(is_schnell ? 1 : 3.5)};
  if (const std::optional<PixelFormat>& pixels = defaults_.pixels) {
    request.token_rows = pixels->height / pixels->patch;
    request.token_columns = pixels->width / pixels->patch;
  }
  return request;
}

Request FluxPipeline::resolve(const RequestOptions& options) const {
  const auto pick = [](auto asked, auto own) { return asked != 0 ? asked : own; };
  const Request own = default_request();
  Request request;
  request.images = in_range("the number of images", options.images, kMaxImages);
  request.token_rows =
      in_range("the number of token rows", pick(options.token_rows, own.token_rows), kMaxTokensAlongSide);
  request.token_columns =
      in_range("the number of token columns", pick(options.token_columns, own.token_columns), kMaxTokensAlongSide);
  request.reference_rows = options.reference_rows;
  request.reference_columns = options.reference_columns;
  // A transformer alone does not say whether it was trained to edit.
  if (request.reference_tokens() != 0 && !is_kontext_ && reads_text()) fail_usage("{} edits no images", name());
  request.text_tokens = in_range("the number of text tokens", pick(options.text_tokens, own.text_tokens),
                                 reads_text() ? kMaxPromptTokens : kMaxTextTokens);
  request.steps = in_range("the number of steps",
                           options.switches.number("steps").value_or(pick(options.steps, own.steps)), kMaxSteps);
  if (const std::optional<std::string_view> named = options.switches.argument("sampler")) {
    const SamplerChoice choice = parse_sampler(*named);
    request.sampler = choice.sampler;
    request.shift = choice.shift;
  } else {
    request.sampler = parse_scheduler(scheduler_).sampler;
  }
  request.guidance_scale = pick(options.guidance_scale, own.guidance_scale);
  request.true_cfg_scale = pick(options.true_cfg_scale, 1.0);
  // A model that is not given its scale, and has one of its own, was trained to be guided so.
  if (reads_text() && !config_.guidance_embeds && own.guidance_scale != 1.0)
    request.true_cfg_scale = pick(options.true_cfg_scale, request.guidance_scale);
  request.classifier_free_guidance = reads_text() && request.true_cfg_scale != 1.0;
  return request;
}

std::optional<Pipeline::ImageCoder> FluxPipeline::encoder() const {
  if (!vae_) return std::nullopt;
  const Component& vae = component("vae");
  return ImageCoder{.component = &vae, .build = [this, &vae](const Request& request) {
                      return build_flux_encode(*vae_, request.reference_rows, request.reference_columns, vae.params());
                    }};
}

std::optional<Pipeline::ImageCoder> FluxPipeline::decoder() const {
  if (!vae_) return std::nullopt;
  const Component& vae = component("vae");
  return ImageCoder{.component = &vae, .build = [this, &vae](const Request& request) {
                      return build_flux_decode(*vae_, request.token_rows, request.token_columns, vae.params());
                    }};
}

Graph FluxPipeline::build_denoise(const Request& request) const {
  return build_flux_denoise(config_, request, sampler_tables(request), denoiser().params());
}

SamplerTables FluxPipeline::sampler_tables(const Request& request) const {
  Scheduler scheduler = parse_scheduler(scheduler_, request.sampler);
  if (request.shift) scheduler.set_shift(*request.shift);
  return scheduler.tables(request.steps, request.image_tokens());
}

void FluxPipeline::set_request_inputs(Session& denoise, const Request& request) const {
  const auto axes = static_cast<std::int64_t>(config_.axes_dims_rope.size());
  denoise.set_input("img_ids", make_image_ids(request, axes));
  denoise.set_input("txt_ids", HostTensor(DType::kF32, {request.text_tokens, axes}));
  const SamplerTables sampler = sampler_tables(request);
  HostTensor timesteps(DType::kF32, {sampler.calls(), request.batch()});
  for (std::int64_t i = 0; i < timesteps.numel(); ++i)
    timesteps.set(i, sampler.timesteps[static_cast<std::size_t>(i / request.batch())] / kTrainTimesteps);
  denoise.set_input("timesteps", timesteps);
  set_sampler_inputs(denoise, sampler);
  if (config_.guidance_embeds) denoise.set_input("guidance", filled({request.batch()}, request.guidance_scale));
  if (request.classifier_free_guidance) denoise.set_input("guidance_scale", filled({1, 1, 1}, request.true_cfg_scale));
}

/// The prompts that the labels are numbers of, where no text is read.
HostTensor FluxPipeline::random_prompts(const Shape& shape, std::span<const ImageRequest> images) const {
  HostTensor rows(DType::kF32, shape);
  const std::size_t size = rows.as<float>().size() / static_cast<std::size_t>(shape[0]);
  for (std::size_t b = 0; b < images.size(); ++b)
    fill_normal(rows.as<float>().subspan(b * size, size), static_cast<std::uint64_t>(images[b].label), kPromptStream);
  return rows;
}

HostTensor FluxPipeline::noise(const Request& request, std::span<const ImageRequest> images) const {
  HostTensor latents(DType::kF32, {request.images, request.image_tokens(), config_.in_channels});
  const Shape of_one{request.image_tokens(), config_.in_channels};
  const auto size = static_cast<std::size_t>(of_one.numel());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::span<float> row = latents.as<float>().subspan(i * size, size);
    if (images[i].noise.numel() == 0) {
      fill_normal(row, images[i].seed, kNoiseStream);
    } else if (const HostTensor& given = images[i].noise; given.shape() == of_one && given.dtype() == DType::kF32) {
      std::ranges::copy(given.as<float>(), row.begin());
    } else {
      fail_usage("the noise is {}{}, expected f32{}: the packed latents of an image", given.dtype(), given.shape(),
                 of_one);
    }
  }
  return latents;
}

void FluxPipeline::set_image_inputs(Session& denoise, const Request& request, std::span<const ImageRequest> images,
                                    const Conditioning& conditioning) const {
  const auto set_parts = [&](std::string_view input, std::span<const Conditioning::Part> parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      denoise.set_input_part(input, static_cast<std::int64_t>(i), *parts[i]);
  };
  for (std::size_t reader = 0; reader < readers_.size(); ++reader)
    set_parts(readers_[reader].input, conditioning.texts[reader]);
  if (!reads_text()) {
    denoise.set_input("encoder_hidden_states",
                      random_prompts({request.images, request.text_tokens, config_.joint_attention_dim}, images));
    denoise.set_input("pooled_projections", random_prompts({request.images, config_.pooled_projection_dim}, images));
  }
  if (request.reference_tokens() != 0) set_parts("reference", conditioning.references);
  std::vector<std::uint64_t> seeds;
  for (const ImageRequest& image : images) seeds.push_back(image.seed);
  start_sampler(denoise, seeds);
  if (std::ranges::any_of(images, [](const ImageRequest& image) { return image.noise.numel() != 0; }))
    denoise.set_state("latents", noise(request, images));
  else
    for (std::size_t i = 0; i < images.size(); ++i)
      denoise.set_state_normal("latents", static_cast<std::int64_t>(i),
                               {.seed = images[i].seed, .stream = kNoiseStream});
}

HostTensor FluxPipeline::decode(const HostTensor& latents, const Request& request) const {
  if (!defaults_.pixels) return Pipeline::decode(latents, request);
  PixelFormat format = *defaults_.pixels;
  format.height = request.token_rows * format.patch;
  format.width = request.token_columns * format.patch;
  return unpatch(latents, format);
}

std::unique_ptr<ClassifierJudge> FluxPipeline::open_judge(Backend& cpu) const {
  if (has_random_weights() || labels_.empty()) return Pipeline::open_judge(cpu);
  return ClassifierJudge::open(folder_, cpu);
}

/// Image tokens in rows, timesteps uniform in [0, 1), everything else normal.
void FluxPipeline::fill_forward_inputs(Session& session, const Request& request) const {
  const Graph& graph = session.program().graph;
  std::uint64_t stream = 0;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const Value& value = graph.value(input);
    HostTensor tensor(value.type.dtype, value.type.shape);
    if (value.name == "img_ids")
      tensor = make_image_ids(request, tensor.shape()[1]);
    else if (value.name == "timestep")
      fill_uniform(tensor.as<float>(), kForwardSeed, stream++);
    else if (value.name != "txt_ids")  // all zeros in every request
      fill_normal(tensor.as<float>(), kForwardSeed, stream++);
    session.set_input(value.name, tensor);
  }
}

ForwardPass FluxPipeline::forward_pass(const Request& request) const {
  const auto build = [this, text = request.text_tokens,
                      reference = request.reference_tokens()](const RequestSize& size) {
    return build_flux_forward(config_,
                              {.batch = size.images,
                               .image_tokens = size.token_rows * size.token_columns,
                               .text_tokens = text,
                               .reference_tokens = reference},
                              denoiser().params());
  };
  nlohmann::json subject = {{"pass", "forward"},
                            {"batch", request.images},
                            {"image_tokens", request.image_tokens()},
                            {"text_tokens", request.text_tokens}};
  if (request.reference_tokens() != 0) subject["reference_tokens"] = request.reference_tokens();
  return {.component = &denoiser(),
          .request = std::move(subject),
          .size = {.images = request.images, .token_rows = request.token_rows, .token_columns = request.token_columns},
          .build = build,
          .set_inputs = [this, request](Session& session) { fill_forward_inputs(session, request); }};
}

std::unique_ptr<Pipeline> make_flux_pipeline(Component transformer) {
  return std::make_unique<FluxPipeline>(flux_parts_of(std::move(transformer)));
}

std::unique_ptr<Pipeline> open_flux_pipeline(const ModelIndex& index, std::optional<std::uint64_t> random_seed) {
  return std::make_unique<FluxPipeline>(open_flux_parts(index, random_seed));
}

}  // namespace headroom
