#include "run/generator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "run/fit.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMaxImages = 4096;
constexpr std::int64_t kMaxTokensAlongSide = 1024;  // 16384 pixels of a latent model
constexpr std::int64_t kMaxTextTokens = 8192;
constexpr std::int64_t kMaxSteps = 10'000;
constexpr std::int64_t kDefaultTokensAlongSide = 64;  // 1024 pixels
constexpr std::int64_t kDefaultTextTokens = 512;

// Random streams of one image, so that its noise never depends on how many images are made with it.
constexpr std::uint64_t kNoiseStream = 0;
constexpr std::uint64_t kPromptStream = 1;

std::int64_t in_range(const char* what, std::int64_t value, std::int64_t high) {
  if (value < 1 || value > high) fail_usage("{} is {}, expected 1 to {}", what, value, high);
  return value;
}

HostTensor filled(Shape shape, double value) {
  HostTensor tensor(DType::kF32, shape);
  std::ranges::fill(tensor.as<float>(), static_cast<float>(value));
  return tensor;
}

}  // namespace

DenoiseRequest make_request(const Model& model, const GeneratorOptions& options) {
  const auto pick = [](std::int64_t asked, std::int64_t own) { return asked != 0 ? asked : own; };
  const std::int64_t rows = model.pixels ? model.pixels->height / model.pixels->patch : kDefaultTokensAlongSide;
  const std::int64_t columns = model.pixels ? model.pixels->width / model.pixels->patch : kDefaultTokensAlongSide;
  const std::int64_t text = model.prompts ? model.prompts->text_tokens() : kDefaultTextTokens;
  DenoiseRequest request;
  request.images = in_range("the number of images", options.images, kMaxImages);
  request.token_rows = in_range("the number of token rows", pick(options.token_rows, rows), kMaxTokensAlongSide);
  request.token_columns =
      in_range("the number of token columns", pick(options.token_columns, columns), kMaxTokensAlongSide);
  request.text_tokens = in_range("the number of text tokens", pick(options.text_tokens, text), kMaxTextTokens);
  if (model.prompts && request.text_tokens != text)
    fail_usage("text tokens are {}, but the model's prompts have {}", request.text_tokens, text);
  request.steps =
      in_range("the number of steps",
               options.switches.number("steps").value_or(pick(options.steps, model.default_steps)), kMaxSteps);
  request.classifier_free_guidance = model.uses_classifier_free_guidance() && options.guidance_scale != 1.0;
  return request;
}

HostTensor make_image_ids(std::int64_t rows, std::int64_t columns, std::int64_t axes) {
  HostTensor ids(DType::kF32, {rows * columns, axes});
  for (std::int64_t token = 0; token < rows * columns; ++token) {
    if (axes > 1) ids.set(token * axes + 1, static_cast<double>(token / columns));
    if (axes > 2) ids.set(token * axes + 2, static_cast<double>(token % columns));
  }
  return ids;
}

std::vector<ImageRequest> make_image_requests(const Model& model, std::int64_t first, std::int64_t count,
                                              std::uint64_t seed) {
  const std::int64_t labels = model.prompts ? model.prompts->empty_prompt() : 1;
  std::vector<ImageRequest> requests;
  for (std::int64_t i = first; i < first + count; ++i)
    requests.push_back({.label = i % labels, .seed = seed + static_cast<std::uint64_t>(i)});
  return requests;
}

Generator::Generator(const Model& model, Backend& backend, WeightStore& weights, const GeneratorOptions& options)
    : model_(model),
      request_(make_request(model, options)),
      guidance_scale_(options.guidance_scale != 0 ? options.guidance_scale : model.guidance_scale),
      compiled_(compile_denoise(model, request_, options.switches, backend.properties().target)) {
  if (options.drops_other_weights) weights.keep_only(*compiled_.program);
  require_memory(backend, weights, options);
  session_ = std::make_unique<Session>(compiled_.program, weights, backend);
  set_constant_inputs();
}

void Generator::require_memory(Backend& backend, const WeightStore& weights, const GeneratorOptions& options) const {
  const auto compile_other = [&](const SwitchSet& switches, const RequestSize& size) {
    DenoiseRequest smaller = request_;
    smaller.images = size.images;
    smaller.token_rows = size.token_rows;
    smaller.token_columns = size.token_columns;
    return compile_denoise(model_, smaller, switches, backend.properties().target);
  };
  const FittedRequest request{
      .model = model_.transformer.name,
      .switches = options.switches,
      .size = {.images = request_.images, .token_rows = request_.token_rows, .token_columns = request_.token_columns},
      .compile = compile_other,
      .suggests = options.suggests_what_fits};
  require_fit(*compiled_.program, request, weights, backend);
}

void Generator::set_constant_inputs() {
  const auto axes = static_cast<std::int64_t>(model_.config.axes_dims_rope.size());
  session_->set_input("img_ids", make_image_ids(request_.token_rows, request_.token_columns, axes));
  session_->set_input("txt_ids", HostTensor(DType::kF32, {request_.text_tokens, axes}));
  const std::vector<double> sigmas = model_.schedule.sigmas(request_.steps, request_.image_tokens());
  HostTensor timesteps(DType::kF32, {request_.steps, request_.batch()});
  HostTensor sigma_steps(DType::kF32, {request_.steps, 1, 1, 1});
  for (std::int64_t step = 0; step < request_.steps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    for (std::int64_t b = 0; b < request_.batch(); ++b) timesteps.set(step * request_.batch() + b, sigmas[i]);
    sigma_steps.set(step, sigmas[i + 1] - sigmas[i]);
  }
  session_->set_input("timesteps", timesteps);
  session_->set_input("sigma_steps", sigma_steps);
  if (model_.config.guidance_embeds) session_->set_input("guidance", filled({request_.batch()}, guidance_scale_));
  if (request_.classifier_free_guidance) session_->set_input("guidance_scale", filled({1, 1, 1}, guidance_scale_));
}

/// Rows of a prompt table, [batch, row...]: with classifier-free guidance the empty prompt for each image first.
/// Without a table, random rows.
HostTensor Generator::prompt_rows(const HostTensor* table, const Shape& row,
                                  std::span<const ImageRequest> requests) const {
  Shape shape{request_.batch()};
  for (const std::int64_t extent : row.dims()) shape.push_back(extent);
  HostTensor rows(DType::kF32, shape);
  const auto size = static_cast<std::size_t>(row.numel());
  const std::span<float> out = rows.as<float>();
  for (std::size_t b = 0; b < static_cast<std::size_t>(request_.batch()); ++b) {
    const bool unguided = request_.classifier_free_guidance && b < requests.size();
    const ImageRequest& request = requests[b % requests.size()];
    const std::span<float> to = out.subspan(b * size, size);
    if (table == nullptr) {
      fill_normal(to, static_cast<std::uint64_t>(request.label), kPromptStream);
      continue;
    }
    const auto prompt = static_cast<std::size_t>(unguided ? model_.prompts->empty_prompt() : request.label);
    std::ranges::copy(table->as<float>().subspan(prompt * size, size), to.begin());
  }
  return rows;
}

void Generator::set_prompts(std::span<const ImageRequest> requests) {
  const PromptTable* table = model_.prompts ? &*model_.prompts : nullptr;
  if (table != nullptr)
    for (const ImageRequest& request : requests)
      if (request.label < 0 || request.label > table->empty_prompt())
        fail_usage("label {} is not one of the model's 0 to {}", request.label, table->empty_prompt() - 1);
  session_->set_input("encoder_hidden_states",
                      prompt_rows(table != nullptr ? &table->encoder_hidden_states : nullptr,
                                  {request_.text_tokens, model_.config.joint_attention_dim}, requests));
  session_->set_input("pooled_projections", prompt_rows(table != nullptr ? &table->pooled_projections : nullptr,
                                                        {model_.config.pooled_projection_dim}, requests));
}

HostTensor Generator::noise(std::span<const ImageRequest> requests) const {
  HostTensor latents(DType::kF32, {request_.images, request_.image_tokens(), model_.config.in_channels});
  const auto size = static_cast<std::size_t>(request_.image_tokens() * model_.config.in_channels);
  for (std::size_t i = 0; i < requests.size(); ++i)
    fill_normal(latents.as<float>().subspan(i * size, size), requests[i].seed, kNoiseStream);
  return latents;
}

HostTensor Generator::generate(std::span<const ImageRequest> requests, const IterationObserver& observer) {
  HR_CHECK_EQ(static_cast<std::int64_t>(requests.size()), request_.images);
  set_prompts(requests);
  session_->set_state("latents", noise(requests));
  session_->run(observer);
  return session_->output("latents");
}

}  // namespace headroom
