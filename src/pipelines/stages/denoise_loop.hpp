#pragma once

#include <functional>

#include "ir/builder.hpp"
#include "pipelines/request.hpp"
#include "pipelines/schedules/sampler_tables.hpp"

namespace headroom {

/// A pass of the denoiser in the loop: of latents [request.batch(), ...], as the sampler has them, at a timestep [batch] what it
/// predicts, of the latents' shape in f32.
using Predict = std::function<ValueId(Builder& b, ValueId latents, ValueId timestep)>;

/// The denoise loop: state `latents` [images, ...] f32, of which `latents` is the shape of one, starts as noise, or as an image with noise
/// on it, and ends as the sample, which is also the output `latents`. Each iteration is a pass, guidance and the sampler's update
/// (pipelines/schedules/sampler_update.hpp, which also says what states and inputs that has). Other inputs, f32, besides the denoiser's own:
/// `timesteps` [calls, batch], and with classifier-free guidance, where the first half of the batch is the unguided one,
/// `guidance_scale` [1, 1, ...].
void build_denoise_loop(Builder& builder, const Request& request, const SamplerTables& sampler, const Shape& latents,
                        const Predict& predict);

}  // namespace headroom
