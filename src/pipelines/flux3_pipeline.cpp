#include "pipelines/flux3_pipeline.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/transformers/flux3.hpp"
#include "pipelines/diffusion_pipeline.hpp"
#include "pipelines/stages/token_positions.hpp"

namespace headroom {
namespace {

constexpr const char* kFlux3Text = "encoder_hidden_states";
constexpr std::int64_t kMaxFlux3Prompt = 8192;
constexpr std::int64_t kFlux3TextStep = 80;    // texts are padded to multiples of it, as in training
constexpr double kFlux3TrainTimesteps = 1000;  // the transformer's timesteps are noise levels
constexpr double kPositionScale = 0.5;         // of rows and columns
constexpr std::size_t kMostFlux3References = 10;

// A prompt is a user's message in a chat.
constexpr std::string_view kFlux3Before = "<|im_start|>user\n";
constexpr std::string_view kFlux3After = "<|im_end|>\n<|im_start|>assistant\n";

HostTensor flux3_image_ids(const Request& request) {
  const TokenGrid image{.size = {request.token_rows, request.token_columns}, .scale = kPositionScale};
  return grid_positions({&image, 1});
}

HostTensor flux3_reference_ids(const Request& request) {
  std::vector<TokenGrid> grids;
  for (const TokenSize& size : request.references)
    grids.push_back({.size = size, .place = -1.0 - static_cast<double>(grids.size()), .scale = kPositionScale});
  return grid_positions(grids);
}

class Flux3Pipeline final : public DiffusionPipeline {
 public:
  Flux3Pipeline(PipelineParts parts, const DiffusionKind& kind, Flux3Config config)
      : DiffusionPipeline(std::move(parts), kind), config_(std::move(config)) {}

  [[nodiscard]] PreparedReferences prepare_references(std::span<const Image> pictures) const override {
    return prepare_flux3_references(pictures);
  }
  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;
  [[nodiscard]] std::vector<TokenInput> token_inputs(const Request& request) const override {
    std::vector<TokenInput> inputs = {{"latents", 1}, {kFlux3Text, 0, request.text_lengths}};
    for (TokenInput& reference : reference_inputs(request)) inputs.push_back(std::move(reference));
    return inputs;
  }

 private:
  /// The values of diffusers' pipelines.
  [[nodiscard]] Request default_request() const override {
    const bool is_distilled = config_.flow_map;
    return {.text_tokens = defaults().text_tokens.value_or(reads_text() ? kMaxFlux3Prompt : kFlux3TextStep),
            .steps = defaults().steps.value_or(is_distilled ? 16 : 50),
            .guidance_scale = defaults().guidance_scale.value_or(is_distilled ? 1 : 3.5)};
  }
  [[nodiscard]] std::vector<TextInput> text_inputs(const Request& request) const override {
    const std::vector<std::int64_t>& lengths = request.text_lengths;
    return {{kFlux3Text, {std::reduce(lengths.begin(), lengths.end()), config_.joint_attention_dim}}};
  }
  [[nodiscard]] Predict add_denoiser(Builder& builder, const Request& request,
                                     const std::vector<ValueId>& texts) const override;
  void set_denoiser_inputs(Session& denoise, const Request& request) const override;

  Flux3Config config_;
};

/// Further inputs: `img_ids`, `txt_ids` of the longest text, and `reference_ids`. The text of a flow map goes through
/// its own blocks before the loop, for all steps at once: each step alone would read the weights for a few tokens.
Predict Flux3Pipeline::add_denoiser(Builder& builder, const Request& request, const std::vector<ValueId>& texts) const {
  const auto input = [&](const char* name, std::int64_t tokens) {
    return builder.graph().add_input(name, TensorType{.shape = {tokens, kFlux2Axes}});
  };
  JoinedTexts joined = join_texts(builder, request, texts[0], config_.joint_attention_dim);
  Flux3Inputs inputs{.hidden_states = kNoValue,
                     .encoder_hidden_states = joined.states,
                     .timestep = kNoValue,
                     .img_ids = input("img_ids", request.image_tokens()),
                     .txt_ids = input("txt_ids", request.longest_text())};
  inputs.text_lengths = std::move(joined.lengths);
  if (!request.references.empty()) {
    inputs.image_cond_hidden_states = add_references(builder, request);
    inputs.image_cond_ids = input("reference_ids", request.reference_tokens());
  }
  ValueId targets = kNoValue, text_of_steps = kNoValue;
  if (config_.flow_map) {
    targets = builder.graph().add_input(kTargetTimesteps,
                                        TensorType{.shape = {sampler_tables(request).calls(), request.batch()}});
    text_of_steps = build_flux3_text(builder, config_, inputs, targets, denoiser().params());  // [steps, ...]
  }
  return [this, inputs, targets, text_of_steps](Builder& b, ValueId latents, ValueId timestep, ValueId step) {
    Flux3Inputs given = inputs;
    given.hidden_states = latents;
    given.timestep = timestep;
    if (targets != kNoValue) {
      const auto scope = b.scope("sampler");
      given.target_timestep = b.row(targets, step);    // [batch]
      given.text_states = b.row(text_of_steps, step);  // [batch or 1, tokens, dim]
    }
    return build_flux3(b, config_, given, denoiser().params());  // [batch, tokens, channels]
  };
}

void Flux3Pipeline::set_denoiser_inputs(Session& denoise, const Request& request) const {
  denoise.set_input("img_ids", flux3_image_ids(request));
  denoise.set_input("txt_ids", text_places(request.longest_text()));
  if (!request.references.empty()) denoise.set_input("reference_ids", flux3_reference_ids(request));
}

ForwardPass Flux3Pipeline::forward_pass(const Request& request) const {
  const bool has_references = !request.references.empty();
  const std::int64_t text = reads_text() ? request.longest_text() : request.text_tokens;
  const auto build = [this, has_references, text, references = request.reference_tokens()](const RequestSize& size) {
    InputShapes shapes = {{"hidden_states", {size.images, size.token_rows * size.token_columns, config_.in_channels}},
                          {kFlux3Text, {size.images, text, config_.joint_attention_dim}}};
    if (has_references)
      shapes.emplace("image_cond_hidden_states", Shape{size.images, references, config_.cond_in_channels});
    return denoiser().build(pass_named(*denoiser().kind, has_references ? "forward-references" : "forward"), shapes);
  };
  Positions positions = {{"img_ids", flux3_image_ids(request)}, {"txt_ids", text_places(text)}};
  if (has_references) positions.emplace("image_cond_ids", flux3_reference_ids(request));
  return pass_over_tokens(request, text, build, std::move(positions));
}

std::unique_ptr<Pipeline> make_flux3(PipelineParts parts) {
  require_flow_matching(parts);
  const Flux3Config config = parse_flux3_config(parts.components.front().config);
  if (config.cond_in_channels != config.in_channels)
    fail("{}: cond_in_channels is {}, expected {} as in_channels: one autoencoder encodes references and images",
         parts.components.front().place(), config.cond_in_channels, config.in_channels);
  const DiffusionKind kind{.loop = "flux3_denoise",
                           .form = LatentForm::kTokens,
                           .channels = config.in_channels,
                           .max_prompt = kMaxFlux3Prompt,
                           .pads_prompts = false,
                           .timestep_unit = kFlux3TrainTimesteps,
                           .image_use = ImageUse::kReference,
                           .is_guided_by_passes = !config.flow_map,
                           .is_flow_map = config.flow_map,
                           .most_references = kMostFlux3References};
  return std::make_unique<Flux3Pipeline>(std::move(parts), kind, config);
}

}  // namespace

std::unique_ptr<Pipeline> make_flux3_pipeline(Component transformer) {
  return make_flux3(parts_of(std::move(transformer), {{"shift", 6.93}}));
}

std::unique_ptr<Pipeline> open_flux3_pipeline(const PartsSource& source) {
  PipelineParts parts = open_parts(source, {"transformer", kFlux3Transformer});
  const Flux3Config config = parse_flux3_config(parts.components.front().config);
  add_reader(parts, source,
             {.part = "text_encoder",
              .class_name = kQwen3Vl,
              .tokenizer = "tokenizer",
              .pass = "stacked-states",
              .readings = {{{"stacked_states", kFlux3Text}, config.joint_attention_dim}},
              .has_request_tokens = true,
              .before = kFlux3Before,
              .after = kFlux3After,
              .pads = false,
              .pad_multiple = kFlux3TextStep,
              .stacked_layers = {4, 8, 12, 16, 20, 24, 28, 32}});
  add_autoencoder_of_tokens(parts, source, config.in_channels);
  if (!config.flow_map) read_guider(parts, source);
  if (config.flow_map != (source.class_name() == "Flux3DistilledModularPipeline"))
    fail("{} is a {}, but flow_map of its transformer is {}", source.place(), source.class_name(), config.flow_map);
  return make_flux3(std::move(parts));
}

}  // namespace headroom
