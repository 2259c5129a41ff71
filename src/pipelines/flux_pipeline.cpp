#include "pipelines/flux_pipeline.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "models/config.hpp"
#include "pipelines/fashion_flux.hpp"
#include "pipelines/flux_denoise.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMaxImages = 4096;
constexpr std::int64_t kMaxTokensAlongSide = 1024;  // 16384 pixels of a latent model
constexpr std::int64_t kMaxTextTokens = 8192;
constexpr std::int64_t kMaxSteps = 10'000;

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

/// img_ids [rows * columns, axes] as FLUX numbers them: (0, row, column).
HostTensor make_image_ids(std::int64_t rows, std::int64_t columns, std::int64_t axes) {
  HostTensor ids(DType::kF32, {rows * columns, axes});
  for (std::int64_t token = 0; token < rows * columns; ++token) {
    if (axes > 1) ids.set(token * axes + 1, static_cast<double>(token / columns));
    if (axes > 2) ids.set(token * axes + 2, static_cast<double>(token % columns));
  }
  return ids;
}

}  // namespace

FluxPipeline::FluxPipeline(Component transformer)
    : Pipeline(std::move(transformer)), config_(parse_flux_config(denoiser().config)) {
  const std::filesystem::path& folder = denoiser().folder;
  if (folder.empty()) return;
  if (const auto path = folder / "scheduler_config.json"; std::filesystem::exists(path)) {
    const nlohmann::json schedule = read_json(path);
    schedule_ = config::read_in(folder.string(), [&] { return parse_flow_match_schedule(schedule); });
  }
  if (const auto path = folder / "generation_config.json"; std::filesystem::exists(path)) {
    const nlohmann::json generation = read_json(path);
    default_steps_ = get_int_or(generation, "num_inference_steps", default_steps_, path.string());
    guidance_scale_ = get_double_or(generation, "guidance_scale", guidance_scale_, path.string());
  }
}

std::string FluxPipeline::obstacle_to_images() const {
  return fmt::format("{} has no prompts.safetensors, so there is nothing to draw; bench and ladder work without",
                     name());
}

Request FluxPipeline::default_request() const {
  return {.token_rows = 64,
          .token_columns = 64,
          .text_tokens = 512,
          .steps = default_steps_,
          .guidance_scale = guidance_scale_};
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
  request.text_tokens =
      in_range("the number of text tokens", pick(options.text_tokens, own.text_tokens), kMaxTextTokens);
  request.steps = in_range("the number of steps",
                           options.switches.number("steps").value_or(pick(options.steps, own.steps)), kMaxSteps);
  request.guidance_scale = pick(options.guidance_scale, own.guidance_scale);
  // What its own scale is 1 of was not trained to be guided so.
  request.classifier_free_guidance =
      has_empty_prompt() && !config_.guidance_embeds && own.guidance_scale != 1.0 && request.guidance_scale != 1.0;
  return request;
}

Graph FluxPipeline::build_denoise(const Request& request) const {
  return build_flux_denoise(config_, request, denoiser().params());
}

void FluxPipeline::set_request_inputs(Session& denoise, const Request& request) const {
  const auto axes = static_cast<std::int64_t>(config_.axes_dims_rope.size());
  denoise.set_input("img_ids", make_image_ids(request.token_rows, request.token_columns, axes));
  denoise.set_input("txt_ids", HostTensor(DType::kF32, {request.text_tokens, axes}));
  const std::vector<double> sigmas = schedule_.sigmas(request.steps, request.image_tokens());
  HostTensor timesteps(DType::kF32, {request.steps, request.batch()});
  HostTensor sigma_steps(DType::kF32, {request.steps, 1, 1, 1});
  for (std::int64_t step = 0; step < request.steps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    for (std::int64_t b = 0; b < request.batch(); ++b) timesteps.set(step * request.batch() + b, sigmas[i]);
    sigma_steps.set(step, sigmas[i + 1] - sigmas[i]);
  }
  denoise.set_input("timesteps", timesteps);
  denoise.set_input("sigma_steps", sigma_steps);
  if (config_.guidance_embeds) denoise.set_input("guidance", filled({request.batch()}, request.guidance_scale));
  if (request.classifier_free_guidance) denoise.set_input("guidance_scale", filled({1, 1, 1}, request.guidance_scale));
}

void FluxPipeline::fill_prompt(std::span<float> row, bool /*is_pooled*/, std::int64_t label, bool /*is_empty*/) const {
  fill_normal(row, static_cast<std::uint64_t>(label), kPromptStream);
}

/// [batch, ...]: with classifier-free guidance the empty prompt for each image first.
HostTensor FluxPipeline::prompt_rows(bool is_pooled, const Request& request,
                                     std::span<const ImageRequest> images) const {
  HostTensor rows(DType::kF32, is_pooled ? Shape{request.batch(), config_.pooled_projection_dim}
                                         : Shape{request.batch(), request.text_tokens, config_.joint_attention_dim});
  const auto batch = static_cast<std::size_t>(request.batch());
  const std::size_t size = rows.as<float>().size() / batch;
  for (std::size_t b = 0; b < batch; ++b)
    fill_prompt(rows.as<float>().subspan(b * size, size), is_pooled, images[b % images.size()].label,
                request.classifier_free_guidance && b < images.size());
  return rows;
}

HostTensor FluxPipeline::noise(const Request& request, std::span<const ImageRequest> images) const {
  HostTensor latents(DType::kF32, {request.images, request.image_tokens(), config_.in_channels});
  const auto size = static_cast<std::size_t>(request.image_tokens() * config_.in_channels);
  for (std::size_t i = 0; i < images.size(); ++i)
    fill_normal(latents.as<float>().subspan(i * size, size), images[i].seed, kNoiseStream);
  return latents;
}

void FluxPipeline::set_image_inputs(Session& denoise, const Request& request,
                                    std::span<const ImageRequest> images) const {
  for (const ImageRequest& image : images) require_label(image.label);
  denoise.set_input("encoder_hidden_states", prompt_rows(/*is_pooled=*/false, request, images));
  denoise.set_input("pooled_projections", prompt_rows(/*is_pooled=*/true, request, images));
  denoise.set_state("latents", noise(request, images));
}

/// All prompts one after the other, and from the first again, as many as the tensor holds.
void FluxPipeline::fill_prompts(HostTensor& tensor, bool is_pooled) const {
  const std::int64_t batch = tensor.shape()[0], prompts = std::ssize(labels()) + 1;
  const std::size_t size = tensor.as<float>().size() / static_cast<std::size_t>(batch);
  for (std::int64_t b = 0; b < batch; ++b)
    fill_prompt(tensor.as<float>().subspan(static_cast<std::size_t>(b) * size, size), is_pooled, b % prompts,
                b % prompts == prompts - 1);
}

/// Prompts where some ship with it, image tokens in rows, timesteps uniform in [0, 1), everything else normal.
void FluxPipeline::fill_forward_inputs(Session& session, std::int64_t token_columns) const {
  const Graph& graph = session.program().graph;
  std::uint64_t stream = 0;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const Value& value = graph.value(input);
    HostTensor tensor(value.type.dtype, value.type.shape);
    const bool is_pooled = value.name == "pooled_projections";
    if (value.name == "img_ids")
      tensor = make_image_ids(tensor.shape()[0] / token_columns, token_columns, tensor.shape()[1]);
    else if (value.name == "timestep")
      fill_uniform(tensor.as<float>(), kForwardSeed, stream++);
    else if (!labels().empty() && (is_pooled || value.name == "encoder_hidden_states"))
      fill_prompts(tensor, is_pooled);
    else if (value.name != "txt_ids")  // all zeros in every request
      fill_normal(tensor.as<float>(), kForwardSeed, stream++);
    session.set_input(value.name, tensor);
  }
}

ForwardPass FluxPipeline::forward_pass(const Request& request) const {
  const auto build = [this, text = request.text_tokens](const RequestSize& size) {
    return build_flux_forward(
        config_, {.batch = size.images, .image_tokens = size.token_rows * size.token_columns, .text_tokens = text},
        denoiser().params());
  };
  return {.component = &denoiser(),
          .request = {{"pass", "forward"},
                      {"batch", request.images},
                      {"image_tokens", request.image_tokens()},
                      {"text_tokens", request.text_tokens}},
          .size = {.images = request.images, .token_rows = request.token_rows, .token_columns = request.token_columns},
          .build = build,
          .set_inputs = [this, columns = request.token_columns](Session& session) {
            fill_forward_inputs(session, columns);
          }};
}

std::unique_ptr<Pipeline> make_flux_pipeline(Component transformer) {
  if (FashionFlux::ships_with(transformer)) return std::make_unique<FashionFlux>(std::move(transformer));
  return std::make_unique<FluxPipeline>(std::move(transformer));
}

}  // namespace headroom
