#pragma once

#include "ir/graph.hpp"
#include "models/flux.hpp"
#include "pipelines/request.hpp"
#include "pipelines/sampler_tables.hpp"

namespace headroom {

/// The whole denoise loop as one graph: state `latents` [images, tokens, channels] f32 starts as noise and ends as the
/// sample, which is also the output `latents`. Each iteration is a forward pass, guidance and the sampler's update
/// (pipelines/sampler_update.hpp, which also says what states and inputs that has). Other inputs, all f32, with B =
/// request.batch(): `encoder_hidden_states` [B, text, d], `pooled_projections` [B, d], `img_ids`, `txt_ids`, `timesteps`
/// [calls, B] (the noise levels), `guidance` [B] where the model embeds it, and `guidance_scale` [1, 1, 1] with
/// classifier-free guidance, where the first half of the batch is the unguided one. Where an image is edited, its latents
/// `reference` [images, reference_tokens, channels] stand behind the noise in every pass, and their ids in `img_ids`.
[[nodiscard]] Graph build_flux_denoise(const FluxConfig& config, const Request& request, const SamplerTables& sampler,
                                       const ParamSource& params);

}  // namespace headroom
