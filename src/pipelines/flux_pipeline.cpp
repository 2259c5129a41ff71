#include "pipelines/flux_pipeline.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/transformers/flux.hpp"
#include "pipelines/diffusion_pipeline.hpp"
#include "pipelines/stages/kontext_sizes.hpp"
#include "pipelines/stages/token_positions.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMaxPromptTokens = 512;  // the longest in the training of FLUX.1
constexpr double kTrainTimesteps = 1000;        // the transformer's timesteps are noise levels

/// img_ids [image_tokens + reference_tokens, axes]: the output is image 0, the reference image 1.
HostTensor make_image_ids(const Request& request, std::int64_t axes) {
  HostTensor ids(DType::kF32, {request.image_tokens() + request.reference_tokens(), axes});
  const auto made = static_cast<std::size_t>(request.image_tokens() * axes);
  number_tokens(ids.as<float>().first(made), 0, request.token_columns, axes);
  if (!request.references.empty())
    number_tokens(ids.as<float>().subspan(made), 1, request.references.front().columns, axes);
  return ids;
}

class FluxPipeline final : public DiffusionPipeline {
 public:
  FluxPipeline(PipelineParts parts, const DiffusionKind& kind, FluxConfig config)
      : DiffusionPipeline(std::move(parts), kind), config_(std::move(config)) {}

  [[nodiscard]] ImageSize reference_size(const ImageSize& image) const override {
    return is_kontext() ? kontext_reference_size(image) : image;
  }
  [[nodiscard]] ImageSize output_size(const ImageSize& asked) const override {
    return is_kontext() ? kontext_output_size(asked, token_pixels()) : asked;
  }
  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;
  [[nodiscard]] std::vector<TokenInput> token_inputs(const Request& /*request*/) const override {
    return {{"latents", 1}, {"reference", 1}, {"encoder_hidden_states", 1}};
  }

 private:
  [[nodiscard]] bool is_kontext() const { return image_use() == ImageUse::kReference; }
  [[nodiscard]] std::int64_t axes() const { return std::ssize(config_.axes_dims_rope); }

  [[nodiscard]] Request default_request() const override;
  [[nodiscard]] std::vector<TextInput> text_inputs(const Request& request) const override {
    return {{"encoder_hidden_states", {request.batch(), request.text_tokens, config_.joint_attention_dim}},
            {"pooled_projections", {request.batch(), config_.pooled_projection_dim}}};
  }
  [[nodiscard]] Predict add_denoiser(Builder& builder, const Request& request,
                                     const std::vector<ValueId>& texts) const override;
  void set_denoiser_inputs(Session& denoise, const Request& request) const override;

  FluxConfig config_;
};

Request FluxPipeline::default_request() const {
  // FLUX.1-schnell is distilled to few steps and has no guidance; these are the values of its model card.
  const bool is_schnell = reads_text() && !config_.guidance_embeds;
  Request request{.text_tokens = defaults().text_tokens.value_or(is_schnell ? 256 : 512),
                  .steps = defaults().steps.value_or(is_schnell ? 4 : 28),
                  .guidance_scale = defaults().guidance_scale.value_or(is_schnell ? 1 : 3.5)};
  if (const std::optional<PixelFormat>& pixels = defaults().pixels) {
    request.token_rows = pixels->height / pixels->patch;
    request.token_columns = pixels->width / pixels->patch;
  }
  return request;
}

/// Further inputs: `img_ids`, `txt_ids`, and `guidance` [batch] if the model embeds it. If an image is edited, also
/// its latents `reference` [images, reference_tokens, channels], which follow the noise in every pass; their ids are
/// in `img_ids`.
Predict FluxPipeline::add_denoiser(Builder& builder, const Request& request, const std::vector<ValueId>& texts) const {
  const auto input = [&](const char* name, Shape dims) {
    return builder.graph().add_input(name, TensorType{.shape = dims});
  };
  FluxInputs inputs{.hidden_states = kNoValue,
                    .encoder_hidden_states = texts[0],
                    .pooled_projections = texts[1],
                    .timestep = kNoValue,
                    .img_ids = input("img_ids", {request.image_tokens() + request.reference_tokens(), axes()}),
                    .txt_ids = input("txt_ids", {request.text_tokens, axes()})};
  if (config_.guidance_embeds) inputs.guidance = input("guidance", {request.batch()});
  const auto predict = [this, inputs](Builder& b, ValueId tokens, ValueId timestep, ValueId /*step*/) {
    FluxInputs given = inputs;
    given.timestep = timestep;
    given.hidden_states = tokens;
    return build_flux(b, config_, given, denoiser().params());  // [batch, tokens, channels]
  };
  return beside_references(builder, request, add_references(builder, request), predict);
}

void FluxPipeline::set_denoiser_inputs(Session& denoise, const Request& request) const {
  denoise.set_input("img_ids", make_image_ids(request, axes()));
  denoise.set_input("txt_ids", HostTensor(DType::kF32, {request.text_tokens, axes()}));
  if (config_.guidance_embeds) denoise.set_input("guidance", filled_tensor({request.batch()}, request.guidance_scale));
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
  return pass_over_tokens(request, request.text_tokens, build,
                          {{"img_ids", make_image_ids(request, axes())},
                           {"txt_ids", HostTensor(DType::kF32, {request.text_tokens, axes()})}});
}

DiffusionKind kind_of(const PipelineParts& parts, const FluxConfig& config, bool is_kontext) {
  return {.loop = "flux_denoise",
          .form = LatentForm::kTokens,
          .channels = config.in_channels,
          .max_prompt = kMaxPromptTokens,
          .timestep_unit = kTrainTimesteps,
          .image_use = is_kontext ? ImageUse::kReference : ImageUse::kNone,
          .embeds_guidance = config.guidance_embeds,
          // A model without a scale input that has its own default scale was trained for guidance by two passes.
          .is_guided_by_passes = !config.guidance_embeds && parts.defaults.guidance_scale.value_or(1) > 1};
}

/// Throws Error if the parts' scheduler is not one of flow matching, or if the tokens of its pixels do not fit the
/// transformer.
void require_flux(const PipelineParts& parts, const FluxConfig& flux) {
  require_flow_matching(parts);
  if (const auto& pixels = parts.defaults.pixels; pixels && pixels->token_channels() != flux.in_channels)
    fail("{}: pixel_format: patches of {} x {} x {} are not the model's {} channels",
         (parts.folder / "generation_config.json").string(), pixels->patch, pixels->patch, pixels->channels,
         flux.in_channels);
}

}  // namespace

std::unique_ptr<Pipeline> make_flux_pipeline(Component transformer) {
  // Without a scheduler, levels are shifted as in FLUX.1-dev.
  PipelineParts parts = parts_of(std::move(transformer), {{"use_dynamic_shifting", true}});
  const FluxConfig flux = parse_flux_config(parts.components.front().config);
  require_flux(parts, flux);
  const DiffusionKind kind = kind_of(parts, flux, /*is_kontext=*/false);
  return std::make_unique<FluxPipeline>(std::move(parts), kind, flux);
}

std::unique_ptr<Pipeline> open_flux_pipeline(const PartsSource& source) {
  PipelineParts parts = open_parts(source, {"transformer", kFluxTransformer});
  const FluxConfig flux = parse_flux_config(parts.components.front().config);
  require_flux(parts, flux);
  add_reader(parts, source,
             {.part = "text_encoder",
              .class_name = "CLIPTextModel",
              .tokenizer = "tokenizer",
              .readings = {{{"pooler_output", "pooled_projections"}, flux.pooled_projection_dim}}});
  add_reader(parts, source,
             {.part = "text_encoder_2",
              .class_name = "T5EncoderModel",
              .tokenizer = "tokenizer_2",
              .readings = {{{"last_hidden_state", "encoder_hidden_states"}, flux.joint_attention_dim}},
              .has_request_tokens = true});
  if (!parts.defaults.pixels) add_autoencoder_of_tokens(parts, source, flux.in_channels);
  const DiffusionKind kind = kind_of(parts, flux, source.class_name().starts_with("FluxKontext"));
  return std::make_unique<FluxPipeline>(std::move(parts), kind, flux);
}

}  // namespace headroom
