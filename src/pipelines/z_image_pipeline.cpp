#include "pipelines/z_image_pipeline.hpp"

#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "models/config.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/transformers/z_image.hpp"
#include "pipelines/diffusion_pipeline.hpp"
#include "pipelines/stages/token_positions.hpp"

namespace headroom {
namespace {

constexpr const char* kZImageText = "encoder_hidden_states";
constexpr std::int64_t kMaxZImagePrompt = 1024;
constexpr double kZImageTrainTimesteps = 1000;
constexpr double kTurboShift = 3;

// A prompt is a user's message in a chat with thinking.
constexpr std::string_view kZImageBefore = "<|im_start|>user\n";
constexpr std::string_view kZImageAfter = "<|im_end|>\n<|im_start|>assistant\n";

HostTensor z_image_ids(const Request& request) {
  HostTensor ids(DType::kF32, {request.image_tokens(), kZImageAxes});
  number_tokens(ids.as<float>(), 0, request.token_columns, kZImageAxes);
  return ids;
}

class ZImagePipeline final : public DiffusionPipeline {
 public:
  ZImagePipeline(PipelineParts parts, const DiffusionKind& kind, ZImageConfig config, bool is_turbo)
      : DiffusionPipeline(std::move(parts), kind), config_(std::move(config)), is_turbo_(is_turbo) {}

  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;
  [[nodiscard]] std::vector<TokenInput> token_inputs(const Request& request) const override {
    return {{"latents", 1}, {kZImageText, 0, request.text_lengths}};
  }

 private:
  /// Turbo's are the values of its model card, others diffusers' defaults.
  [[nodiscard]] Request default_request() const override {
    constexpr std::int64_t kPromptTokens = 512;
    return {.text_tokens = defaults().text_tokens.value_or(kPromptTokens),
            .steps = defaults().steps.value_or(is_turbo_ ? 8 : 50),
            .guidance_scale = defaults().guidance_scale.value_or(is_turbo_ ? 0 : 5)};
  }
  [[nodiscard]] std::vector<TextInput> text_inputs(const Request& request) const override {
    const std::vector<std::int64_t>& lengths = request.text_lengths;
    return {{kZImageText, {std::reduce(lengths.begin(), lengths.end()), config_.cap_feat_dim}}};
  }
  [[nodiscard]] Predict add_denoiser(Builder& builder, const Request& request,
                                     const std::vector<ValueId>& texts) const override;
  void set_denoiser_inputs(Session& denoise, const Request& request) const override {
    denoise.set_input("img_ids", z_image_ids(request));
  }

  ZImageConfig config_;
  bool is_turbo_;
};

/// A further input: `img_ids`. The transformer takes 1 - the noise level, and predicts the velocity towards the image,
/// that of the sampler with the other sign.
Predict ZImagePipeline::add_denoiser(Builder& builder, const Request& request,
                                     const std::vector<ValueId>& texts) const {
  JoinedTexts joined = join_texts(builder, request, texts[0], config_.cap_feat_dim);
  ZImageInputs inputs{
      .hidden_states = kNoValue,
      .encoder_hidden_states = joined.states,
      .timestep = kNoValue,
      .img_ids = builder.graph().add_input("img_ids", TensorType{.shape = {request.image_tokens(), kZImageAxes}})};
  inputs.text_lengths = std::move(joined.lengths);
  return [this, inputs](Builder& b, ValueId latents, ValueId timestep, ValueId /*step*/) {
    ZImageInputs given = inputs;
    given.hidden_states = latents;
    given.timestep = b.add_scalar(b.neg(timestep), 1);
    return b.neg(build_z_image(b, config_, given, denoiser().params()));  // [batch, tokens, channels]
  };
}

ForwardPass ZImagePipeline::forward_pass(const Request& request) const {
  const auto build = [this, text = request.text_tokens](const RequestSize& size) {
    return denoiser().build(
        pass_named(*denoiser().kind, "forward"),
        {{"hidden_states", {size.images, size.token_rows * size.token_columns, config_.token_channels()}},
         {kZImageText, {size.images, text, config_.cap_feat_dim}}});
  };
  return pass_over_tokens(request, request.text_tokens, build, {{"img_ids", z_image_ids(request)}});
}

std::unique_ptr<Pipeline> make_pipeline_of_z_image(PipelineParts parts) {
  require_flow_matching(parts);
  const ZImageConfig config = parse_z_image_config(parts.components.front().config);
  // No file states which of the two a transformer is. Their schedulers differ.
  const bool is_turbo = config::read_in(
      parts.place, [&] { return get_double_or(parts.scheduler, "shift", 1, "scheduler_config.json") == kTurboShift; });
  const DiffusionKind kind{.loop = "z_image_denoise",
                           .form = LatentForm::kTokensByLatent,
                           .channels = config.token_channels(),
                           .max_prompt = kMaxZImagePrompt,
                           .pads_prompts = false,
                           .timestep_unit = kZImageTrainTimesteps,
                           .is_guided_by_passes = true,
                           .guidance_is_added = true};
  return std::make_unique<ZImagePipeline>(std::move(parts), kind, config, is_turbo);
}

}  // namespace

std::unique_ptr<Pipeline> make_z_image_pipeline(Component transformer) {
  return make_pipeline_of_z_image(
      parts_of(std::move(transformer), {{"use_dynamic_shifting", false}, {"shift", kTurboShift}}));
}

std::unique_ptr<Pipeline> open_z_image_pipeline(const PartsSource& source) {
  PipelineParts parts = open_parts(source, {"transformer", kZImageTransformer});
  const ZImageConfig config = parse_z_image_config(parts.components.front().config);
  add_reader(parts, source,
             {.part = "text_encoder",
              .class_name = kQwen3,
              .tokenizer = "tokenizer",
              .pass = "stacked-states",
              .readings = {{{"stacked_states", kZImageText}, config.cap_feat_dim}},
              .has_request_tokens = true,
              .before = kZImageBefore,
              .after = kZImageAfter,
              .pads = false,
              .stacked_layers = {-2}});
  add_autoencoder_of_tokens(parts, source, config.token_channels());
  return make_pipeline_of_z_image(std::move(parts));
}

}  // namespace headroom
