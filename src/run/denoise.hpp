#pragma once

#include <cstdint>

#include "ir/graph.hpp"
#include "models/flux.hpp"

namespace headroom {

/// One request: how many images, how large, in how many steps, guided how.
struct DenoiseRequest {
  std::int64_t images = 1;
  std::int64_t token_rows = 64;  ///< image tokens down; an image has token_rows * token_columns of them
  std::int64_t token_columns = 64;
  std::int64_t text_tokens = 512;
  std::int64_t steps = 28;
  /// Two passes a step, unguided and guided, as one batch of twice the images (Ho and Salimans, "Classifier-Free
  /// Diffusion Guidance", 2022).
  bool classifier_free_guidance = false;

  [[nodiscard]] std::int64_t image_tokens() const { return token_rows * token_columns; }
  /// Batch of a forward pass.
  [[nodiscard]] std::int64_t batch() const { return classifier_free_guidance ? 2 * images : images; }
};

/// The whole denoise loop as one graph: state `latents` [images, tokens, channels] f32 starts as noise and ends as the
/// sample, which is also the output `latents`. Each iteration is a forward pass, guidance and Euler's update x +=
/// (sigma[i+1] - sigma[i]) * v. Inputs, all f32, with B = request.batch(): `encoder_hidden_states` [B, text, d],
/// `pooled_projections` [B, d], `img_ids`, `txt_ids`, `timesteps` [steps, B] (the noise levels), `sigma_steps` [steps,
/// 1, 1, 1] (their differences), `guidance` [B] where the model embeds it, and `guidance_scale` [1, 1, 1] with
/// classifier-free guidance, where the first half of the batch is the unguided one.
[[nodiscard]] Graph build_flux_denoise(const FluxConfig& config, const DenoiseRequest& request,
                                       const ParamSource& params);

}  // namespace headroom
