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

/// Options of a live stream. The model chooses empty fields and counts that are 0.
struct StreamOptions {
  ImageSize size = {};     ///< of its frames; required
  std::int64_t steps = 0;  ///< denoiser calls per frame; overridden by the switches steps=N and stream-batch=N
  std::optional<double> strength = {};        ///< share of noise in the denoiser's first input, above 0, up to 1
  std::optional<double> guidance_scale = {};  ///< for residual guidance, 0 to 100
  std::optional<double> guidance_delta = {};  ///< for residual guidance: the factor of the residual noise, 0 to 10
  std::int64_t text_tokens = 0;
  std::string prompt = {};
  std::string negative_prompt = {};
  std::optional<double> similarity = {};  ///< the threshold of an active filter, in place of its switch's
  std::uint64_t seed = 0;
  SwitchSet switches = {};
  /// For graphs after the first, for which a running stream waits. A stream keeps its initial value, as it keeps size
  /// and switches.
  NewWork new_work = NewWork::kTakeOver;
};

/// A complete stream request. Fields after `is_filtered` can change without planning again.
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

/// A model that processes the frames of a live stream. The objects that it was made from must outlive it.
class StreamModel {
 public:
  virtual ~StreamModel() = default;
  StreamModel(const StreamModel&) = delete;
  StreamModel& operator=(const StreamModel&) = delete;

  /// The network that processes each frame. Its name is the model's name.
  [[nodiscard]] virtual const Component& denoiser() const = 0;
  /// The pipeline that encodes its prompts; null if it reads none.
  [[nodiscard]] virtual const Pipeline* pipeline() const { return nullptr; }
  /// The default frame size.
  [[nodiscard]] virtual ImageSize own_size() const = 0;
  /// Whether the model uses a strength and a noise seed.
  [[nodiscard]] virtual bool takes_strength() const { return false; }
  /// Why a switch of streams does not apply to the model; empty if it applies, and for all other switches.
  [[nodiscard]] virtual std::string obstacle_to(std::string_view switch_name) const = 0;

  /// Throws a usage Error for invalid options.
  [[nodiscard]] virtual StreamRequest resolve(const StreamOptions& options) const = 0;
  /// Options that were given and have no effect on the output.
  [[nodiscard]] virtual std::vector<IdleOption> idle_options(const StreamOptions& options) const;
  /// A frame as one graph, from `pixels` to `shown` (pipelines/streams/stream_pixels.hpp). Requests with equal
  /// structure() have equal graphs.
  [[nodiscard]] virtual Graph build_frame(const StreamRequest& request) const = 0;
  [[nodiscard]] virtual std::string structure(const StreamRequest& request) const = 0;
  /// Sets all inputs except pixels and texts.
  virtual void set_inputs(Session& session, const StreamRequest& request) const = 0;
  /// Starts a stream at the first frame of the camera, u8 [height, width, 3].
  virtual void start(Session& session, const StreamRequest& request, const HostTensor& first) const = 0;
  /// The number of runs between the input of a frame and its output.
  [[nodiscard]] virtual std::int64_t delay(const StreamRequest& request) const = 0;

 protected:
  StreamModel() = default;
};

/// The prefix of the inputs for the negative prompt.
inline constexpr const char* kNegative = "negative_";

/// Switches that apply to streams only.
inline constexpr const char *kStreamBatch = "stream-batch", *kResidualGuidance = "rcfg", *kSimilarity = "similarity";

/// Parses the argument of `similarity`: "0.98", or "0.98:5" for at most 5 skipped frames in a row. Throws a usage
/// Error for any other.
[[nodiscard]] SimilarityFilter parse_similarity(std::string_view argument);

/// Copies filter and seed from the options to the request.
void resolve_filter(const StreamOptions& options, StreamRequest& request);

/// A frame of a stream as a separate pass, from pixels to pixels on the device, with random pixels and a random
/// prompt.
[[nodiscard]] ForwardPass frame_pass(std::shared_ptr<const StreamModel> model, const StreamOptions& options);

/// The stream of a pipeline, whose loop starts from each frame. Throws a usage Error for a pipeline that does not
/// start from images.
[[nodiscard]] std::unique_ptr<StreamModel> make_stream_model(const Pipeline& pipeline);
/// Whether a network alone processes frames of a stream.
[[nodiscard]] bool is_stream_network(const Component& network);
/// The stream of a network alone. Throws a usage Error for a network that does not process streams.
[[nodiscard]] std::unique_ptr<StreamModel> make_stream_model(const Component& network);

}  // namespace headroom
