#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/builder.hpp"
#include "pipelines/schedules/sampler_tables.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// What guides the denoiser of a stream in place of a second pass over each sample: residual guidance (Kodaira et al.,
/// "StreamDiffusion", 2023, section 3.2). What a negative prompt would predict is taken to be the noise u that leads from the sample x at
/// level (a, s) back to one and the same image z, u = (x - a z) / s, and the prediction becomes delta u + scale (c - delta u).
enum class ResidualGuidance : std::uint8_t {
  kNone,
  kSelf,        ///< z is the frame itself: no pass more
  kInitialize,  ///< z is what one pass under the negative prompt makes of the first level: one sample more a frame
};
/// "self" or "initialize", the arguments of the switch `rcfg`. Throws a usage Error for another.
[[nodiscard]] ResidualGuidance parse_residual_guidance(std::string_view argument);

/// How a frame's latents are denoised, in as many calls as the sampler's tables have.
struct StreamSteps {
  SamplerTables sampler;
  std::vector<NoiseLevel> levels;  ///< of the sample in each call
  Prediction prediction = Prediction::kEpsilon;
  ResidualGuidance guidance = ResidualGuidance::kNone;
  /// Each run of the graph makes one call on a batch of as many frames as there are calls, each in another one of them: a frame
  /// enters, and the one that entered `calls - 1` runs before is done. They stay where they are in the batch, and what they are in goes
  /// round.
  bool is_batched = false;

  [[nodiscard]] std::int64_t calls() const { return sampler.calls(); }
  /// Runs of the graph from one that a frame goes into to the one that it comes out of.
  [[nodiscard]] std::int64_t delay() const { return is_batched ? calls() - 1 : 0; }
};

/// A pass of the denoiser over latents [rows, ...] at timesteps [rows], of which the first `negative_rows` are under the negative prompt.
using PredictRows =
    std::function<ValueId(Builder& builder, ValueId latents, ValueId timesteps, std::int64_t negative_rows)>;

/// From the `encoded` latents [1, ...] of a frame, f32, to the denoised ones of the frame that is done. Each frame begins with the
/// same noise. Inputs, f32: `noise` of their shape, `timesteps` [calls], `level_alpha` and `level_sigma` [calls, 1, 1, ...], with
/// guidance `guidance_scale` and `guidance_delta` [], and the sampler's. States: the sampler's; of a batch also
/// `stream_position`, and with guidance `anchors`, what z is of each frame.
[[nodiscard]] ValueId build_stream_steps(Builder& builder, const StreamSteps& steps, ValueId encoded,
                                         const PredictRows& predict);

/// Sets all these inputs, for any steps that are built alike.
void set_stream_steps(Session& session, const StreamSteps& steps, std::uint64_t seed, double guidance_scale,
                      double guidance_delta);
/// Begins a stream anew: no frame is under way.
void start_stream_steps(Session& session);

/// Equal where the graphs are: other numbers are then set without planning anew.
[[nodiscard]] std::string structure_of(const StreamSteps& steps);

}  // namespace headroom
