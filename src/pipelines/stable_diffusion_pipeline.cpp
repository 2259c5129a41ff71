#include "pipelines/stable_diffusion_pipeline.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "models/config.hpp"
#include "models/unets/unet2d_condition.hpp"
#include "pipelines/diffusion_pipeline.hpp"
#include "pipelines/schedules/scheduler.hpp"

namespace headroom {
namespace {

constexpr const char* kText = "encoder_hidden_states";
constexpr const char* kText2 = "encoder_hidden_states_2";
constexpr const char* kPooled = "text_embeds";

/// The text inputs of the U-Net: hidden states of tokens, concatenated over encoders, and for SDXL a pooled vector.
struct TextWidths {
  std::vector<std::int64_t> states;  ///< by encoder
  std::int64_t pooled = 0;
};

class StableDiffusionPipeline final : public DiffusionPipeline {
 public:
  StableDiffusionPipeline(PipelineParts parts, const DiffusionKind& kind, UNet2DConditionConfig unet, TextWidths texts)
      : DiffusionPipeline(std::move(parts), kind),
        unet_(std::move(unet)),
        texts_(std::move(texts)),
        max_prompt_(kind.max_prompt) {}

  /// Cropped to whole latents, as in diffusers.
  [[nodiscard]] ImageSize reference_size(const ImageSize& image) const override {
    const std::int64_t step = token_pixels();
    if (image.height < step || image.width < step)
      fail_usage("the image is {} x {} pixels, expected at least {} x {}", image.width, image.height, step, step);
    return {.height = image.height / step * step, .width = image.width / step * step};
  }
  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;

 private:
  [[nodiscard]] Request default_request() const override;
  [[nodiscard]] std::vector<TextInput> text_inputs(const Request& request) const override;
  [[nodiscard]] Predict add_denoiser(Builder& builder, const Request& request,
                                     const std::vector<ValueId>& texts) const override;
  void set_denoiser_inputs(Session& denoise, const Request& request) const override;

  UNet2DConditionConfig unet_;
  TextWidths texts_;
  std::int64_t max_prompt_;
};

/// The defaults of diffusers' pipelines. No file of a distilled model (Turbo, Lightning, Hyper, LCM) states its
/// number of steps, so only a generation_config.json changes them.
Request StableDiffusionPipeline::default_request() const {
  const bool is_xl = unet_.has_text_time;
  return {.token_rows = unet_.sample_size[0],
          .token_columns = unet_.sample_size[1],
          .text_tokens = defaults().text_tokens.value_or(max_prompt_),
          .steps = defaults().steps.value_or(50),
          .guidance_scale = defaults().guidance_scale.value_or(is_xl ? 5 : 7.5),
          .strength = is_xl ? 0.3 : 0.8};
}

std::vector<DiffusionPipeline::TextInput> StableDiffusionPipeline::text_inputs(const Request& request) const {
  std::vector<TextInput> inputs;
  for (const std::int64_t width : texts_.states)
    inputs.push_back({inputs.empty() ? kText : kText2, {request.batch(), request.text_tokens, width}});
  if (unet_.has_text_time) inputs.push_back({kPooled, {request.batch(), texts_.pooled}});
  return inputs;
}

/// SDXL has the further input `time_ids` [batch, 6].
Predict StableDiffusionPipeline::add_denoiser(Builder& builder, const Request& request,
                                              const std::vector<ValueId>& texts) const {
  const std::vector<ValueId> states(texts.begin(), texts.begin() + std::ssize(texts_.states));
  UNet2DConditionInputs inputs{
      .sample = kNoValue,
      .timestep = kNoValue,
      .encoder_hidden_states = states.size() == 1 ? states.front() : builder.concat(states, 2)};
  if (unet_.has_text_time) {
    inputs.text_embeds = texts.back();
    Graph& graph = builder.graph();
    inputs.time_ids = graph.find(ValueKind::kInput, "time_ids");  // from another pass in the same graph
    if (inputs.time_ids == kNoValue)
      inputs.time_ids = graph.add_input("time_ids", TensorType{.shape = {request.batch(), kTimeIds}});
  }
  return [this, inputs](Builder& b, ValueId latents, ValueId timestep, ValueId /*step*/) {
    UNet2DConditionInputs given = inputs;
    given.sample = latents;
    given.timestep = timestep;
    return build_unet2d_condition(b, unet_, given, denoiser().params());
  };
}

/// For each image: its original size, its crop position, and its size. The image is not cropped.
void StableDiffusionPipeline::set_denoiser_inputs(Session& denoise, const Request& request) const {
  if (!unet_.has_text_time) return;
  const std::int64_t height = request.token_rows * token_pixels(), width = request.token_columns * token_pixels();
  const std::int64_t numbers[kTimeIds] = {height, width, 0, 0, height, width};
  HostTensor ids(DType::kF32, {request.batch(), kTimeIds});
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.set(i, static_cast<double>(numbers[i % kTimeIds]));
  denoise.set_input("time_ids", ids);
}

ForwardPass StableDiffusionPipeline::forward_pass(const Request& request) const {
  const ComponentPass& pass = pass_named(*denoiser().kind, "forward");
  const auto build = [this, &pass, text = request.text_tokens](const RequestSize& size) {
    return denoiser().build(pass, pass.shapes(denoiser().config, {.batch = size.images,
                                                                  .height = size.token_rows * kLatentPixels,
                                                                  .width = size.token_columns * kLatentPixels,
                                                                  .text_tokens = text}));
  };
  nlohmann::json subject = {{"pass", "forward"},
                            {"batch", request.images},
                            {"height", request.token_rows * token_pixels()},
                            {"width", request.token_columns * token_pixels()}};
  if (request.text_tokens != max_prompt_) subject["text_tokens"] = request.text_tokens;
  return {.component = &denoiser(),
          .request = std::move(subject),
          .size = {.images = request.images,
                   .token_rows = request.token_rows,
                   .token_columns = request.token_columns,
                   .token_pixels = token_pixels()},
          .build = build,
          .set_inputs = [this](Session& session) { set_random_inputs(denoiser(), session); }};
}

/// Whether SDXL's autoencoder overflows in f16, as its first versions do; for other models the key is ignored.
bool must_upcast(const PipelineParts& parts) {
  const Component* const vae = parts.find("vae");
  return vae != nullptr && vae->kind->name == "AutoencoderKL" &&
         get_bool_or(vae->config, "force_upcast", true, vae->place());
}

std::unique_ptr<Pipeline> make(PipelineParts parts, UNet2DConditionConfig unet, TextWidths texts,
                               std::int64_t max_prompt) {
  config::read_in(parts.place, [&] {
    if (is_flow_matching(parts.scheduler) == true)
      fail("scheduler_config.json: _class_name is {}, expected a scheduler of diffusion",
           config::class_name(parts.scheduler));
  });
  const DiffusionKind kind{.loop = "unet_denoise",
                           .form = LatentForm::kImage,
                           .channels = unet.in_channels,
                           .max_prompt = max_prompt,
                           .image_use = ImageUse::kStart,
                           .is_guided_by_passes = true,
                           .vae_overflows_f16 = unet.has_text_time && must_upcast(parts)};
  return std::make_unique<StableDiffusionPipeline>(std::move(parts), kind, std::move(unet), std::move(texts));
}

}  // namespace

std::unique_ptr<Pipeline> make_stable_diffusion_pipeline(Component unet) {
  constexpr std::int64_t kPromptTokens = 77;
  // Without a scheduler, the levels are those on which these models were trained.
  PipelineParts parts = parts_of(std::move(unet), {{"_class_name", "EulerDiscreteScheduler"},
                                                   {"beta_start", 0.00085},
                                                   {"beta_end", 0.012},
                                                   {"beta_schedule", "scaled_linear"},
                                                   {"timestep_spacing", "leading"},
                                                   {"steps_offset", 1}});
  const UNet2DConditionConfig config = parse_unet2d_condition_config(parts.components.front().config);
  return make(std::move(parts), config, {.states = {config.cross_attention_dim}, .pooled = config.pooled_dim()},
              kPromptTokens);
}

std::unique_ptr<Pipeline> open_stable_diffusion_pipeline(const PartsSource& source) {
  PipelineParts parts = open_parts(source, {"unet", kUNet2DCondition});
  const UNet2DConditionConfig unet = parse_unet2d_condition_config(parts.components.front().config);
  TextWidths texts{.states = {}, .pooled = unet.pooled_dim()};
  const auto read = [&](const EncoderPart& encoder) -> TextReader& {
    TextReader& reader = add_reader(parts, source, encoder);
    texts.states.push_back(
        output_width(parts.components.back(), encoder.pass, encoder.readings.front().reading.output));
    return reader;
  };
  if (unet.has_text_time) {
    constexpr const char* kState = "penultimate_hidden_state";
    const bool zeros = source.flag("force_zeros_for_empty_prompt", true);
    read({.part = "text_encoder",
          .class_name = "CLIPTextModel",
          .tokenizer = "tokenizer",
          .pass = "penultimate",
          .readings = {{{kState, kText}, 0}},
          .has_request_tokens = true})
        .no_text_is_zeros = zeros;
    read({.part = "text_encoder_2",
          .class_name = "CLIPTextModelWithProjection",
          .tokenizer = "tokenizer_2",
          .pass = "penultimate",
          .readings = {{{kState, kText2}, 0}, {{"text_embeds", kPooled}, texts.pooled}},
          .has_request_tokens = true})
        .no_text_is_zeros = zeros;
    if (const std::int64_t width = texts.states[0] + texts.states[1]; width != unet.cross_attention_dim)
      fail("{}: the text encoders' states are {} wide together, but the unet's {} are {}", source.place(), width, kText,
           unet.cross_attention_dim);
  } else {
    read({.part = "text_encoder",
          .class_name = "CLIPTextModel",
          .tokenizer = "tokenizer",
          .readings = {{{"last_hidden_state", kText}, unet.cross_attention_dim}},
          .has_request_tokens = true});
    // diffusers overrides these keys in this pipeline, whatever their values.
    parts.scheduler["steps_offset"] = 1;
    parts.scheduler["clip_sample"] = false;
  }
  std::int64_t max_prompt = std::numeric_limits<std::int64_t>::max();
  for (const TextReader& reader : parts.readers) {
    const Component& encoder = *parts.find(reader.encoder);
    max_prompt = std::min(max_prompt, encoder.kind->text_tokens(encoder.config));
  }
  if (const std::int64_t channels = add_autoencoder(parts, source).latent_channels;
      channels != unet.in_channels || channels != unet.out_channels)
    fail("{}: latents have {} channels, but the unet takes {} and makes {}", parts.find("vae")->place(), channels,
         unet.in_channels, unet.out_channels);
  return make(std::move(parts), unet, std::move(texts), max_prompt);
}

}  // namespace headroom
