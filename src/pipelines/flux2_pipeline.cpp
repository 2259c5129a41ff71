#include "pipelines/flux2_pipeline.hpp"

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/transformers/flux2.hpp"
#include "pipelines/diffusion_pipeline.hpp"
#include "pipelines/stages/token_positions.hpp"

namespace headroom {
namespace {

constexpr const char* kFlux2Text = "encoder_hidden_states";
constexpr std::int64_t kMaxFlux2Prompt = 512;
constexpr double kFlux2TrainTimesteps = 1000;  // the transformer's timesteps are noise levels
constexpr std::size_t kMostReferences = 10;
constexpr double kReferenceStep = 10;  // between the first positions of references

// A prompt is a user's message in a chat without thinking.
constexpr std::string_view kFlux2Before = "<|im_start|>user\n";
constexpr std::string_view kFlux2After = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

HostTensor flux2_image_ids(const Request& request) {
  std::vector<TokenGrid> grids = {{.size = {request.token_rows, request.token_columns}}};
  for (std::size_t i = 0; i < request.references.size(); ++i)
    grids.push_back({.size = request.references[i], .image = kReferenceStep * static_cast<double>(i + 1)});
  return grid_positions(grids);
}

class Flux2Pipeline final : public DiffusionPipeline {
 public:
  Flux2Pipeline(PipelineParts parts, const DiffusionKind& kind, Flux2Config config)
      : DiffusionPipeline(std::move(parts), kind), config_(std::move(config)), is_guided_(kind.is_guided_by_passes) {}

  [[nodiscard]] PreparedReferences prepare_references(std::span<const Image> pictures) const override {
    return prepare_flux2_references(pictures);
  }
  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;
  [[nodiscard]] std::vector<TokenInput> token_inputs(const Request& request) const override {
    std::vector<TokenInput> inputs = {{"latents", 1}, {kFlux2Text, 1}};
    for (TokenInput& reference : reference_inputs(request)) inputs.push_back(std::move(reference));
    return inputs;
  }

 private:
  /// The values of the model cards: no file of a distilled model states its number of steps.
  [[nodiscard]] Request default_request() const override {
    return {.text_tokens = defaults().text_tokens.value_or(kMaxFlux2Prompt),
            .steps = defaults().steps.value_or(is_guided_ ? 50 : 4),
            .guidance_scale = defaults().guidance_scale.value_or(is_guided_ ? 4 : 1)};
  }
  [[nodiscard]] std::vector<TextInput> text_inputs(const Request& request) const override {
    return {{kFlux2Text, {request.batch(), request.text_tokens, config_.joint_attention_dim}}};
  }
  [[nodiscard]] Predict add_denoiser(Builder& builder, const Request& request,
                                     const std::vector<ValueId>& texts) const override;
  void set_denoiser_inputs(Session& denoise, const Request& request) const override;

  Flux2Config config_;
  bool is_guided_;
};

/// Further inputs: `img_ids`, in which those of references follow, and `txt_ids`.
Predict Flux2Pipeline::add_denoiser(Builder& builder, const Request& request, const std::vector<ValueId>& texts) const {
  const auto input = [&](const char* name, std::int64_t tokens) {
    return builder.graph().add_input(name, TensorType{.shape = {tokens, kFlux2Axes}});
  };
  const Flux2Inputs inputs{.hidden_states = kNoValue,
                           .encoder_hidden_states = texts[0],
                           .timestep = kNoValue,
                           .img_ids = input("img_ids", request.image_tokens() + request.reference_tokens()),
                           .txt_ids = input("txt_ids", request.text_tokens)};
  const auto predict = [this, inputs](Builder& b, ValueId tokens, ValueId timestep, ValueId /*step*/) {
    Flux2Inputs given = inputs;
    given.timestep = timestep;
    given.hidden_states = tokens;
    return build_flux2(b, config_, given, denoiser().params());  // [batch, tokens, channels]
  };
  return beside_references(builder, request, add_references(builder, request), predict);
}

void Flux2Pipeline::set_denoiser_inputs(Session& denoise, const Request& request) const {
  denoise.set_input("img_ids", flux2_image_ids(request));
  denoise.set_input("txt_ids", text_places(request.text_tokens));
}

ForwardPass Flux2Pipeline::forward_pass(const Request& request) const {
  const auto build = [this, text = request.text_tokens,
                      references = request.reference_tokens()](const RequestSize& size) {
    const std::int64_t tokens = size.token_rows * size.token_columns + references;
    return denoiser().build(pass_named(*denoiser().kind, "forward"),
                            {{"hidden_states", {size.images, tokens, config_.in_channels}},
                             {kFlux2Text, {size.images, text, config_.joint_attention_dim}}});
  };
  return pass_over_tokens(request, request.text_tokens, build,
                          {{"img_ids", flux2_image_ids(request)}, {"txt_ids", text_places(request.text_tokens)}});
}

std::unique_ptr<Pipeline> make_flux2(PipelineParts parts, bool is_distilled) {
  require_flow_matching(parts);
  const Flux2Config config = parse_flux2_config(parts.components.front().config);
  if (config.guidance_embeds || config.out_channels != config.in_channels)
    fail("{}: a transformer of FLUX.2 [klein] embeds no guidance and has as many channels out as in, and this one {}",
         parts.components.front().place(),
         config.guidance_embeds ? "embeds guidance"
                                : fmt::format("has {} and {}", config.out_channels, config.in_channels));
  const DiffusionKind kind{.loop = "flux2_denoise",
                           .form = LatentForm::kTokens,
                           .channels = config.in_channels,
                           .max_prompt = kMaxFlux2Prompt,
                           .timestep_unit = kFlux2TrainTimesteps,
                           .image_use = ImageUse::kReference,
                           .is_guided_by_passes = !is_distilled,
                           .shift_is_by_steps = true,
                           .most_references = kMostReferences};
  return std::make_unique<Flux2Pipeline>(std::move(parts), kind, config);
}

}  // namespace

std::unique_ptr<Pipeline> make_flux2_pipeline(Component transformer) {
  return make_flux2(parts_of(std::move(transformer), {{"use_dynamic_shifting", true}}), /*is_distilled=*/true);
}

std::unique_ptr<Pipeline> open_flux2_pipeline(const PartsSource& source) {
  PipelineParts parts = open_parts(source, {"transformer", kFlux2Transformer});
  const Flux2Config config = parse_flux2_config(parts.components.front().config);
  add_reader(parts, source,
             {.part = "text_encoder",
              .class_name = kQwen3,
              .tokenizer = "tokenizer",
              .pass = "stacked-states",
              .readings = {{{"stacked_states", kFlux2Text}, config.joint_attention_dim}},
              .has_request_tokens = true,
              .before = kFlux2Before,
              .after = kFlux2After,
              .stacked_layers = {9, 18, 27}});
  add_autoencoder_of_tokens(parts, source, config.in_channels);
  const bool is_distilled = source.flag("is_distilled", source.class_name() == "Flux2KleinModularPipeline");
  if (!is_distilled) read_guider(parts, source);
  return make_flux2(std::move(parts), is_distilled);
}

}  // namespace headroom
