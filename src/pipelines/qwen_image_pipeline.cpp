#include "pipelines/qwen_image_pipeline.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/transformers/qwen_image.hpp"
#include "pipelines/diffusion_pipeline.hpp"

namespace headroom {
namespace {

constexpr const char* kQwenText = "encoder_hidden_states";
constexpr std::int64_t kMaxQwenPrompt = 1024;
constexpr double kQwenTrainTimesteps = 1000;  // the transformer's timesteps are noise levels

// A prompt is a user's message in a chat, after the instruction to describe it. The states of the ids before it are not
// read.
constexpr std::string_view kQwenBefore =
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n";
constexpr std::string_view kQwenAfter = "<|im_end|>\n<|im_start|>assistant\n";
constexpr std::int64_t kQwenDroppedTokens = 34;

/// (frame, row, column) of the tokens of an image, whose middle is at 0.
HostTensor centred_positions(std::int64_t rows, std::int64_t columns) {
  HostTensor ids(DType::kF32, {rows * columns, kQwenImageAxes});
  for (std::int64_t token = 0; token < rows * columns; ++token) {
    ids.set(token * kQwenImageAxes + 1, static_cast<double>(token / columns - (rows - rows / 2)));
    ids.set(token * kQwenImageAxes + 2, static_cast<double>(token % columns - (columns - columns / 2)));
  }
  return ids;
}

/// Text goes on behind the larger side of the image, on all axes alike.
HostTensor text_positions(std::int64_t rows, std::int64_t columns, std::int64_t tokens) {
  HostTensor ids(DType::kF32, {tokens, kQwenImageAxes});
  const std::int64_t first = std::max(rows / 2, columns / 2);
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.set(i, static_cast<double>(first + i / kQwenImageAxes));
  return ids;
}

class QwenImagePipeline final : public DiffusionPipeline {
 public:
  QwenImagePipeline(PipelineParts parts, const DiffusionKind& kind, QwenImageConfig config)
      : DiffusionPipeline(std::move(parts), kind), config_(std::move(config)) {}

  [[nodiscard]] Request resolve(const RequestOptions& options) const override {
    Request request = DiffusionPipeline::resolve(options);
    if (!request.references.empty()) fail_usage("{} edits no images", name());
    return request;
  }
  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;
  [[nodiscard]] std::vector<TokenInput> token_inputs(const Request& request) const override {
    return {{"latents", 1}, {kQwenText, 0, request.text_lengths}};
  }

 private:
  [[nodiscard]] Request default_request() const override {
    constexpr std::int64_t kPromptTokens = 512;
    return {.text_tokens = defaults().text_tokens.value_or(kPromptTokens), .steps = defaults().steps.value_or(50)};
  }
  [[nodiscard]] std::vector<TextInput> text_inputs(const Request& request) const override {
    const std::vector<std::int64_t>& lengths = request.text_lengths;
    return {{kQwenText, {std::reduce(lengths.begin(), lengths.end()), config_.joint_attention_dim}}};
  }
  [[nodiscard]] Predict add_denoiser(Builder& builder, const Request& request,
                                     const std::vector<ValueId>& texts) const override;
  void set_denoiser_inputs(Session& denoise, const Request& request) const override;

  QwenImageConfig config_;
};

/// Further inputs: `img_ids`, and `txt_ids` of the longest text.
Predict QwenImagePipeline::add_denoiser(Builder& builder, const Request& request,
                                        const std::vector<ValueId>& texts) const {
  const auto input = [&](const char* name, std::int64_t tokens) {
    return builder.graph().add_input(name, TensorType{.shape = {tokens, kQwenImageAxes}});
  };
  JoinedTexts joined = join_texts(builder, request, texts[0], config_.joint_attention_dim);
  QwenImageInputs inputs{.hidden_states = kNoValue,
                         .encoder_hidden_states = joined.states,
                         .timestep = kNoValue,
                         .img_ids = input("img_ids", request.image_tokens()),
                         .txt_ids = input("txt_ids", request.longest_text())};
  inputs.text_lengths = std::move(joined.lengths);
  return [this, inputs](Builder& b, ValueId latents, ValueId timestep, ValueId /*step*/) {
    QwenImageInputs given = inputs;
    given.hidden_states = latents;
    given.timestep = timestep;
    return build_qwen_image(b, config_, given, denoiser().params());  // [batch, tokens, channels]
  };
}

void QwenImagePipeline::set_denoiser_inputs(Session& denoise, const Request& request) const {
  denoise.set_input("img_ids", centred_positions(request.token_rows, request.token_columns));
  denoise.set_input("txt_ids", text_positions(request.token_rows, request.token_columns, request.longest_text()));
}

ForwardPass QwenImagePipeline::forward_pass(const Request& request) const {
  const auto build = [this, text = request.text_tokens](const RequestSize& size) {
    return denoiser().build(
        pass_named(*denoiser().kind, "forward"),
        {{"hidden_states", {size.images, size.token_rows * size.token_columns, config_.in_channels}},
         {kQwenText, {size.images, text, config_.joint_attention_dim}}});
  };
  return pass_over_tokens(
      request, request.text_tokens, build,
      {{"img_ids", centred_positions(request.token_rows, request.token_columns)},
       {"txt_ids", text_positions(request.token_rows, request.token_columns, request.text_tokens)}});
}

std::unique_ptr<Pipeline> make_pipeline_of(PipelineParts parts) {
  require_flow_matching(parts);
  const QwenImageConfig config = parse_qwen_image_config(parts.components.front().config);
  if (config.token_channels() != config.in_channels)
    fail("{}: predicted tokens have {} channels, but the transformer takes {}", parts.components.front().name,
         config.token_channels(), config.in_channels);
  const DiffusionKind kind{.loop = "qwen_image_denoise",
                           .form = LatentForm::kTokens,
                           .channels = config.in_channels,
                           .max_prompt = kMaxQwenPrompt,
                           .pads_prompts = false,
                           .timestep_unit = kQwenTrainTimesteps,
                           .true_cfg_scale = 4,
                           .guidance = GuidanceForm::kRescaled};
  return std::make_unique<QwenImagePipeline>(std::move(parts), kind, config);
}

}  // namespace

std::unique_ptr<Pipeline> make_qwen_image_pipeline(Component transformer) {
  // Without a scheduler, levels are shifted as in the published folder.
  return make_pipeline_of(parts_of(std::move(transformer), {{"use_dynamic_shifting", true},
                                                            {"base_shift", 0.5},
                                                            {"max_shift", 0.9},
                                                            {"base_image_seq_len", 256},
                                                            {"max_image_seq_len", 8192},
                                                            {"shift_terminal", 0.02}}));
}

std::unique_ptr<Pipeline> open_qwen_image_pipeline(const PartsSource& source) {
  PipelineParts parts = open_parts(source, {"transformer", kQwenImageTransformer});
  const QwenImageConfig config = parse_qwen_image_config(parts.components.front().config);
  add_reader(parts, source,
             {.part = "text_encoder",
              .class_name = kQwen25Vl,
              .tokenizer = "tokenizer",
              .readings = {{{"last_hidden_state", kQwenText}, config.joint_attention_dim}},
              .has_request_tokens = true,
              .before = kQwenBefore,
              .after = kQwenAfter,
              .dropped_tokens = kQwenDroppedTokens,
              .pads = false});
  add_autoencoder_of_tokens(parts, source, config.in_channels);
  return make_pipeline_of(std::move(parts));
}

}  // namespace headroom
