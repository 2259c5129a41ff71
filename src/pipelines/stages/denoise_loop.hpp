#pragma once

#include <cstdint>
#include <functional>

#include "ir/builder.hpp"
#include "pipelines/request.hpp"
#include "pipelines/schedules/sampler_formulas.hpp"

namespace headroom {

/// A denoiser pass in the loop: predicts from latents [request.batch(), ...], as the sampler has them, and a timestep
/// [batch]. `step` counts the passes; a stream, whose frames are in several steps at once, has none. The prediction has
/// the latents' shape, in f32.
using Predict = std::function<ValueId(Builder& b, ValueId latents, ValueId timestep, ValueId step)>;

/// How classifier-free guidance combines the two predictions of a token, u without and g with the prompt.
enum class GuidanceForm : std::uint8_t {
  kLinear,    ///< u + scale (g - u)
  kRescaled,  ///< the same, scaled to the length of g along the last axis
};

/// The denoise loop. State `latents` [images, ...] f32 starts as noise, or as an image with noise, and ends as the
/// sample, which is also the output `latents`. The argument `latents` is the shape of one image. Each iteration is a
/// pass, guidance and the sampler's update (pipelines/schedules/sampler_update.hpp, which documents its states and
/// inputs). Other inputs, f32, in addition to the denoiser's own: `timesteps` [calls, batch]. Classifier-free
/// guidance, in which the first half of the batch is unguided, adds `guidance_scale` [1, 1, ...].
void build_denoise_loop(Builder& builder, const Request& request, const SamplerTables& sampler, const Shape& latents,
                        const Predict& predict, GuidanceForm guidance = GuidanceForm::kLinear);

}  // namespace headroom
