#include "pipelines/streams/diffusion_stream.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "pipelines/schedules/scheduler.hpp"

namespace headroom {
namespace {

constexpr double kOwnStrength = 0.5;  // as in StreamDiffusion's demos of Turbo models
constexpr double kOwnGuidance = 1.2;  // likewise for residual guidance
constexpr std::int64_t kMostRows = 64;

}  // namespace

/// Friend of DiffusionPipeline, which builds another graph from its parts.
class DiffusionStream final : public StreamModel {
 public:
  explicit DiffusionStream(const DiffusionPipeline& pipeline) : pipeline_(pipeline) {
    if (pipeline.kind_.form != LatentForm::kImage || pipeline.image_use() != ImageUse::kStart)
      fail_usage("{} makes no image from another: a stream takes a Stable Diffusion or a LiveStreamUNet",
                 pipeline.name());
    if (!pipeline.autoencoder_)
      fail_usage("{} is a denoiser alone: a stream takes the folder that holds its pipeline's model_index.json",
                 pipeline.name());
  }

  [[nodiscard]] const Component& denoiser() const override { return pipeline_.denoiser(); }
  [[nodiscard]] const Pipeline* pipeline() const override { return &pipeline_; }
  [[nodiscard]] ImageSize own_size() const override {
    const Request own = pipeline_.default_request();
    return {.height = own.token_rows * pipeline_.token_pixels(), .width = own.token_columns * pipeline_.token_pixels()};
  }
  [[nodiscard]] bool takes_strength() const override { return true; }
  [[nodiscard]] std::string obstacle_to(std::string_view switch_name) const override {
    for (const char* cache : {"fbcache", "teacache", "meancache"})
      if (switch_name == cache) return "a stream has few steps, each of which is computed";
    return {};
  }

  [[nodiscard]] StreamRequest resolve(const StreamOptions& options) const override;
  [[nodiscard]] Graph build_frame(const StreamRequest& request) const override;
  [[nodiscard]] std::string structure(const StreamRequest& request) const override {
    return fmt::format("{} x {}, {} text tokens, {}, {}", request.size.width, request.size.height, request.text_tokens,
                       request.is_filtered, structure_of(steps_of(request)));
  }
  void set_inputs(Session& session, const StreamRequest& request) const override {
    set_stream_steps(session, steps_of(request), request.seed, request.guidance_scale, request.guidance_delta);
    set_similarity_filter(session, request.filter);
    // For the largest batch of the denoiser.
    pipeline_.set_denoiser_inputs(session, pass_request(request, rows_of(request)));
  }
  void start(Session& session, const StreamRequest& /*request*/, const HostTensor& /*first*/) const override {
    start_stream_steps(session);
    start_similarity_filter(session);
  }
  [[nodiscard]] std::int64_t delay(const StreamRequest& request) const override {
    return request.is_batched ? request.steps - 1 : 0;
  }

 private:
  [[nodiscard]] StreamSteps steps_of(const StreamRequest& request) const;
  [[nodiscard]] std::int64_t rows_of(const StreamRequest& request) const {
    if (!request.is_batched) return 1;
    return request.steps + (request.guidance == ResidualGuidance::kInitialize ? 1 : 0);
  }
  /// The request of a pass over this many samples, in the pipeline's terms.
  [[nodiscard]] Request pass_request(const StreamRequest& request, std::int64_t rows) const {
    return {.images = rows,
            .token_rows = request.size.height / pipeline_.token_pixels(),
            .token_columns = request.size.width / pipeline_.token_pixels(),
            .text_tokens = request.text_tokens,
            .sampler = request.sampler};
  }

  const DiffusionPipeline& pipeline_;
};

StreamRequest DiffusionStream::resolve(const StreamOptions& options) const {
  const SwitchSet& switches = options.switches;
  for (const auto& [name, pixels] : {std::pair("height", options.size.height), {"width", options.size.width}})
    if (pixels < 1) fail_usage("the {} of a frame is {}, expected at least {}", name, pixels, pipeline_.token_pixels());
  const std::optional<std::int64_t> rows = switches.number(kStreamBatch);
  StreamRequest request{.size = options.size, .is_batched = rows.has_value() && *rows > 1};
  const std::int64_t asked = switches.number("steps").value_or(options.steps);
  if (rows && asked != 0 && asked != *rows)
    fail_usage("{}={} has a frame at each of {} steps, but {} were asked for", kStreamBatch, *rows, *rows, asked);
  if (rows && *rows > kMostRows) fail_usage("{}={}: expected at most {}", kStreamBatch, *rows, kMostRows);
  request.strength = options.strength.value_or(kOwnStrength);
  if (!(request.strength > 0 && request.strength <= 1))
    fail_usage("the strength is {}, expected more than 0 to 1", request.strength);
  request.steps = rows.value_or(asked != 0 ? asked : 1);

  RequestOptions pass{.token_rows = tokens_along(pipeline_, "the height of a frame", options.size.height),
                      .token_columns = tokens_along(pipeline_, "the width of a frame", options.size.width),
                      .text_tokens = options.text_tokens,
                      .steps = request.steps,
                      .guidance_scale = 1,
                      .switches = switches.without("steps")};
  const Request resolved = pipeline_.resolve(pass);
  if (!resolved.obstacle_to_sampler.empty()) fail("{}", resolved.obstacle_to_sampler);
  if (count_calls(resolved.sampler, 2) != 2)
    fail_usage(
        "a stream calls the denoiser once a step, and the sampler {} calls it twice: put another into --opt, such as "
        "sampler=euler",
        to_string(resolved.sampler));
  request.sampler = resolved.sampler;
  request.text_tokens = resolved.text_tokens;

  if (const std::optional<std::string_view> mode = switches.argument(kResidualGuidance)) {
    request.guidance = parse_residual_guidance(*mode);
    request.guidance_scale = number_up_to(100, "the guidance scale", options.guidance_scale.value_or(kOwnGuidance));
    request.guidance_delta = number_up_to(10, "the delta of the guidance", options.guidance_delta.value_or(1));
  } else if (options.guidance_scale.value_or(1) > 1 || options.guidance_delta) {
    fail_usage("a stream is guided with the switch {}, which is not on", kResidualGuidance);
  }
  if (!options.negative_prompt.empty() && request.guidance != ResidualGuidance::kInitialize)
    fail_usage("a negative prompt is for {}=initialize, which is not on", kResidualGuidance);
  if (pipeline_.kind_.vae_overflows_f16 && switches.has("fp16"))
    fail_usage("the autoencoder of {} makes numbers that f16 has not: take bf16, or a tiny autoencoder",
               pipeline_.name());
  resolve_filter(options, request);
  request.prompt = options.prompt;
  request.negative_prompt = options.negative_prompt;
  return request;
}

StreamSteps DiffusionStream::steps_of(const StreamRequest& request) const {
  const Scheduler scheduler = pipeline_.scheduler(request.sampler);
  const NoiseSchedule schedule = scheduler.schedule_from(request.strength, request.steps);
  StreamSteps steps{.sampler = make_sampler_tables(scheduler.sampler, schedule, scheduler.options),
                    .levels = {},
                    .prediction = schedule.prediction,
                    .guidance = request.guidance,
                    .is_batched = request.is_batched};
  for (const NoiseStep& step : schedule.steps) steps.levels.push_back(step.from);
  return steps;
}

Graph DiffusionStream::build_frame(const StreamRequest& request) const {
  const Autoencoder& autoencoder = *pipeline_.autoencoder_;
  const ParamSource vae = pipeline_.component("vae").params();
  const StreamSteps steps = steps_of(request);
  return build_stream_frame("stream_frame", request.size, request.is_filtered, [&](Builder& b, ValueId image) {
    Graph& graph = b.graph();
    // Each prompt once, independent of the batch: [1, ...].
    const auto add_texts = [&](const std::string& prefix) {
      std::vector<ValueId> texts;
      for (const auto& text : pipeline_.text_inputs(pass_request(request, 1)))
        texts.push_back(graph.add_input(prefix + text.name, TensorType{.shape = text.shape}));
      return texts;
    };
    const std::vector<ValueId> positive = add_texts("");
    const std::vector<ValueId> negative =
        request.guidance == ResidualGuidance::kInitialize ? add_texts(kNegative) : std::vector<ValueId>{};
    const PredictRows predict = [&](Builder& builder, ValueId latents, ValueId timesteps, std::int64_t negative_rows) {
      const std::int64_t rows = builder.shape(latents)[0];
      std::vector<ValueId> texts;
      for (std::size_t i = 0; i < positive.size(); ++i) {
        std::vector<ValueId> parts(static_cast<std::size_t>(negative_rows), negative.empty() ? kNoValue : negative[i]);
        parts.resize(static_cast<std::size_t>(rows), positive[i]);
        texts.push_back(parts.size() == 1 ? parts.front() : builder.concat(parts, 0));
      }
      return pipeline_.add_denoiser(builder, pass_request(request, rows), texts)(builder, latents, timesteps, kNoValue);
    };
    const ValueId encoded = autoencoder.encode(b, image, vae);
    return autoencoder.decode(b, build_stream_steps(b, steps, encoded, predict), vae);
  });
}

std::unique_ptr<StreamModel> make_diffusion_stream(const DiffusionPipeline& pipeline) {
  return std::make_unique<DiffusionStream>(pipeline);
}

}  // namespace headroom
