#include "pipelines/streams/live_stream.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "models/unets/live_stream_unet.hpp"
#include "pipelines/schedules/diffusion_schedule.hpp"
#include "pipelines/streams/live_stream_frame.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMostSteps = 100;
constexpr double kBytesHalfRange = 127.5;

SamplerTables ddim_steps(std::int64_t steps) {
  return make_sampler_tables(Sampler::kDdim, DiffusionSchedule{.rules = DiffusionRules::kDdim,
                                                               .prediction = Prediction::kV,
                                                               .spacing = TimestepSpacing::kTrailing}
                                                 .schedule(steps));
}

class LiveStream final : public StreamModel {
 public:
  explicit LiveStream(const Component& network)
      : network_(network), config_(parse_live_stream_unet_config(network.config)) {}

  [[nodiscard]] const Component& denoiser() const override { return network_; }
  [[nodiscard]] ImageSize own_size() const override {
    return {.height = config_.sample_size[0], .width = config_.sample_size[1]};
  }
  [[nodiscard]] std::string obstacle_to(std::string_view switch_name) const override {
    if (switch_name == kStreamBatch) return "each frame is made of what was shown before it";
    if (switch_name == kResidualGuidance) return "it reads no prompt to be guided by";
    if (switch_name == "sampler") return "its steps are those of DDIM, which it is trained for";
    return {};
  }

  [[nodiscard]] StreamRequest resolve(const StreamOptions& options) const override {
    if (config_.out_channels != 3)
      fail_usage("{} has frames of {} channels, expected 3: pixels are RGB", network_.name, config_.out_channels);
    StreamRequest request{.size = options.size, .sampler = Sampler::kDdim};
    request.steps = options.switches.number("steps").value_or(options.steps != 0 ? options.steps : 1);
    if (request.steps < 1 || request.steps > kMostSteps)
      fail_usage("the number of steps is {}, expected 1 to {}", request.steps, kMostSteps);
    for (const auto& [name, pixels] : {std::pair("height", request.size.height), {"width", request.size.width}})
      if (pixels < config_.scale() || pixels % config_.scale() != 0)
        fail_usage("the {} of a frame is {}, expected a multiple of {} for {}", name, pixels, config_.scale(),
                   network_.name);
    if (!options.prompt.empty()) fail_usage("{} reads no prompt", network_.name);
    resolve_filter(options, request);
    return request;
  }

  [[nodiscard]] std::vector<IdleOption> idle_options(const StreamOptions& options) const override {
    std::vector<IdleOption> idle = StreamModel::idle_options(options);
    if (options.strength) idle.push_back({"strength", network_.name + " begins each frame with the one before"});
    if (options.text_tokens != 0) idle.push_back({"text_tokens", network_.name + " reads no text"});
    const std::string reason = network_.name + " reads no prompt to be guided by";
    if (options.guidance_scale) idle.push_back({"guidance", reason});
    if (options.guidance_delta) idle.push_back({"delta", reason});
    if (!options.negative_prompt.empty()) idle.push_back({"negative_prompt", reason});
    return idle;
  }

  [[nodiscard]] Graph build_frame(const StreamRequest& request) const override {
    const SamplerTables sampler = ddim_steps(request.steps);
    return build_stream_frame("live_stream", request.size, request.is_filtered, [&](Builder& b, ValueId image) {
      return build_live_stream_image(b, config_, image, sampler, network_.params());
    });
  }
  [[nodiscard]] std::string structure(const StreamRequest& request) const override {
    return fmt::format("{} x {}, {} steps, {}", request.size.width, request.size.height, request.steps,
                       request.is_filtered);
  }

  void set_inputs(Session& session, const StreamRequest& request) const override {
    HostTensor noise(DType::kF32, image_shape(request));
    fill_normal(noise.as<float>(), request.seed, 0);
    set_live_stream_inputs(session, ddim_steps(request.steps), noise);
    set_similarity_filter(session, request.filter);
  }

  void start(Session& session, const StreamRequest& request, const HostTensor& first) const override {
    HostTensor image(DType::kF32, image_shape(request));
    const std::int64_t pixels = request.size.height * request.size.width;
    for (std::int64_t i = 0; i < pixels; ++i)
      for (std::int64_t channel = 0; channel < 3; ++channel)
        image.set(channel * pixels + i, first.at(3 * i + channel) / kBytesHalfRange - 1);
    start_live_stream(session, image, {});
    start_similarity_filter(session);
  }
  [[nodiscard]] std::int64_t delay(const StreamRequest& /*request*/) const override { return 0; }

 private:
  static Shape image_shape(const StreamRequest& request) { return {1, 3, request.size.height, request.size.width}; }

  const Component& network_;
  LiveStreamUNetConfig config_;
};

}  // namespace

std::unique_ptr<StreamModel> make_live_stream(const Component& network) {
  return std::make_unique<LiveStream>(network);
}

}  // namespace headroom
