#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/builder.hpp"
#include "pipelines/schedules/sampler_formulas.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// Guidance of a stream's denoiser without a second pass over each sample: residual guidance (Kodaira et al.,
/// "StreamDiffusion", 2023, section 3.2). The prediction for the negative prompt is approximated by the noise u that
/// leads from the sample x at level (a, s) back to a fixed image z: u = (x - a z) / s. The prediction becomes delta u
/// + scale (c - delta u).
enum class ResidualGuidance : std::uint8_t {
  kNone,
  kSelf,  ///< z is the frame itself: no additional pass
  /// Z is the result of one pass under the negative prompt at the first level: one more sample per frame.
  kInitialize,
};
/// Parses "self" or "initialize", the arguments of the switch `rcfg`. Throws a usage Error for any other.
[[nodiscard]] ResidualGuidance parse_residual_guidance(std::string_view argument);

/// How a frame's latents are denoised, in as many calls as the sampler's tables have.
struct StreamSteps {
  SamplerTables sampler;
  std::vector<NoiseLevel> levels;  ///< of the sample, by call
  Prediction prediction = Prediction::kEpsilon;
  ResidualGuidance guidance = ResidualGuidance::kNone;
  /// Each run of the graph makes one call on a batch of as many frames as there are calls, each at a different call.
  /// One frame enters, and the frame that entered `calls - 1` runs before is done. Frames keep their place in the
  /// batch, and the calls rotate.
  bool is_batched = false;

  [[nodiscard]] std::int64_t calls() const { return sampler.calls(); }
  /// The number of graph runs between the input of a frame and its output.
  [[nodiscard]] std::int64_t delay() const { return is_batched ? calls() - 1 : 0; }
};

/// A denoiser pass over latents [rows, ...] at timesteps [rows], of which the first `negative_rows` use the negative
/// prompt.
using PredictRows =
    std::function<ValueId(Builder& builder, ValueId latents, ValueId timesteps, std::int64_t negative_rows)>;

/// Denoises the `encoded` latents [1, ...] f32 of a frame and returns those of the frame that is done. Every frame
/// starts with the same noise. Inputs, f32: `noise` of their shape; `timesteps` [calls]; `level_alpha` and
/// `level_sigma` [calls, 1, 1, ...]; with guidance `guidance_scale` and `guidance_delta` []; and the sampler's.
/// States: the sampler's; with a batch also `stream_position`; with guidance `anchors`, the image z of each frame.
[[nodiscard]] ValueId build_stream_steps(Builder& builder, const StreamSteps& steps, ValueId encoded,
                                         const PredictRows& predict);

/// Sets all these inputs, for any steps with an equal graph.
void set_stream_steps(Session& session, const StreamSteps& steps, std::uint64_t seed, double guidance_scale,
                      double guidance_delta);
/// Starts a stream again: no frame is in progress.
void start_stream_steps(Session& session);

/// Equal if the graphs are equal; other values can then be set without planning again.
[[nodiscard]] std::string structure_of(const StreamSteps& steps);

}  // namespace headroom
