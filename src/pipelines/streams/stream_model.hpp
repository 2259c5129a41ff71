#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipelines/pipeline.hpp"
#include "pipelines/request.hpp"
#include "pipelines/streams/stream_pixels.hpp"
#include "pipelines/streams/stream_steps.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"

namespace headroom {

/// What a live stream is asked for with. What is empty, and a count that is 0, is left to the model.
struct StreamOptions {
  ImageSize size = {};     ///< of its frames, which must be given
  std::int64_t steps = 0;  ///< calls of the denoiser a frame; the switches steps=N and stream-batch=N override it
  std::optional<double> strength = {};        ///< share of noise in what the denoiser begins with, over 0 to 1
  std::optional<double> guidance_scale = {};  ///< of residual guidance, 0 to 100
  std::optional<double> guidance_delta = {};  ///< likewise: how much of the residual noise is taken, 0 to 10
  std::int64_t text_tokens = 0;
  std::string prompt = {};
  std::string negative_prompt = {};
  std::optional<double> similarity = {};  ///< the threshold of a filter that is on, in place of its switch's
  std::uint64_t seed = 0;
  SwitchSet switches = {};
  /// Of graphs after the first, which a stream that runs waits for. It keeps the one that it was made with, as it does size and switches.
  NewWork new_work = NewWork::kTakeOver;
};

/// A stream with nothing left open. What can change without planning anew stands behind `is_filtered`.
struct StreamRequest {
  ImageSize size;
  std::int64_t steps = 1;
  std::int64_t text_tokens = 0;
  Sampler sampler = Sampler::kEuler;
  ResidualGuidance guidance = ResidualGuidance::kNone;
  bool is_batched = false;
  bool is_filtered = false;
  double strength = 1;
  double guidance_scale = 1;
  double guidance_delta = 1;
  SimilarityFilter filter = {};
  std::uint64_t seed = 0;
  std::string prompt = {};
  std::string negative_prompt = {};
};

/// A model that frames of a live stream go through. What it is made of must outlive it.
class StreamModel {
 public:
  virtual ~StreamModel() = default;
  StreamModel(const StreamModel&) = delete;
  StreamModel& operator=(const StreamModel&) = delete;

  /// The network that each frame goes through; the model's name is its.
  [[nodiscard]] virtual const Component& denoiser() const = 0;
  /// What reads its prompts; null where it reads none.
  [[nodiscard]] virtual const Pipeline* pipeline() const { return nullptr; }
  /// What frames it was made for, where nobody says.
  [[nodiscard]] virtual ImageSize own_size() const = 0;
  /// Whether a strength, and a noise's seed, say anything to it.
  [[nodiscard]] virtual bool takes_strength() const { return false; }
  /// Why a switch of streams is not for it; empty where it is, and for all other switches.
  [[nodiscard]] virtual std::string obstacle_to(std::string_view switch_name) const = 0;

  /// Throws a usage Error for what makes no sense.
  [[nodiscard]] virtual StreamRequest resolve(const StreamOptions& options) const = 0;
  /// Options that were given and change nothing of what is shown.
  [[nodiscard]] virtual std::vector<IdleOption> idle_options(const StreamOptions& options) const;
  /// A frame as one graph, from `pixels` to `shown` (pipelines/streams/stream_pixels.hpp). Graphs of requests with equal structure() are equal.
  [[nodiscard]] virtual Graph build_frame(const StreamRequest& request) const = 0;
  [[nodiscard]] virtual std::string structure(const StreamRequest& request) const = 0;
  /// Sets all inputs but pixels and texts.
  virtual void set_inputs(Session& session, const StreamRequest& request) const = 0;
  /// Begins a stream anew at the first frame that the camera sees, u8 [height, width, 3].
  virtual void start(Session& session, const StreamRequest& request, const HostTensor& first) const = 0;
  /// Runs from one that a frame goes into to the one that it comes out of.
  [[nodiscard]] virtual std::int64_t delay(const StreamRequest& request) const = 0;

 protected:
  StreamModel() = default;
};

/// What the inputs for the negative prompt are called: those of the prompt with this in front.
inline constexpr const char* kNegative = "negative_";

/// The switches of streams, which no other request has.
inline constexpr const char *kStreamBatch = "stream-batch", *kResidualGuidance = "rcfg", *kSimilarity = "similarity";

/// What the argument of `similarity` says: "0.98", or "0.98:5" for at most 5 frames in a row. Throws a usage Error for another.
[[nodiscard]] SimilarityFilter parse_similarity(std::string_view argument);

/// Of the options, what a request says of the filter, and its seed.
void resolve_filter(const StreamOptions& options, StreamRequest& request);

/// A frame of a stream as a pass by itself, from pixels to pixels on the device, over random ones under a random prompt.
[[nodiscard]] ForwardPass frame_pass(std::shared_ptr<const StreamModel> model, const StreamOptions& options);

/// The stream of a pipeline, which begins its loop with each frame. Throws a usage Error for one that does not begin with images.
[[nodiscard]] std::unique_ptr<StreamModel> make_stream_model(const Pipeline& pipeline);
/// Whether a network by itself is one that frames of a stream go through.
[[nodiscard]] bool is_stream_network(const Component& network);
/// That of a network alone. Throws a usage Error where it is none for streams.
[[nodiscard]] std::unique_ptr<StreamModel> make_stream_model(const Component& network);

}  // namespace headroom
