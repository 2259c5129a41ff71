#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/switches.hpp"
#include "base/target.hpp"
#include "base/tensors/host_tensor.hpp"
#include "pipelines/schedules/sampler.hpp"

namespace headroom {

/// The size of an image in pixels; 0 where it is left to the model.
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// What a request is asked for with. What is empty, and a count that is 0, is left to the pipeline.
struct RequestOptions {
  std::int64_t images = 1;  ///< made by one generation
  std::int64_t token_rows = 0;
  std::int64_t token_columns = 0;
  std::int64_t reference_rows = 0;  ///< tokens of the image that is edited, where the pipeline edits
  std::int64_t reference_columns = 0;
  std::int64_t text_tokens = 0;
  std::int64_t steps = 0;                               ///< the switch steps=N overrides it
  std::optional<double> guidance_scale = std::nullopt;  ///< 0 to 100
  /// 0 to 100; over 1: classifier-free guidance of a model that is guided without it. Of no effect in others.
  std::optional<double> true_cfg_scale = std::nullopt;
  std::optional<double> strength =
      std::nullopt;  ///< share of noise on the image that the loop begins with, over 0 to 1
  SwitchSet switches;
  std::size_t memory_limit = 0;      ///< device memory that may be used, in bytes; 0 is all there is
  bool drops_other_weights = false;  ///< frees what the store holds and this request does not use, before it loads
  bool suggests_what_fits = true;    ///< in the error where it does not fit, which takes time
  bool records_velocities = false;   ///< the loop has the output kVelocities (passes/step_caches/step_cache.hpp)
  NewWork new_work = NewWork::kMeasure;
};

/// A request with nothing left open: how many images, how large, in how many steps of which sampler, guided how.
struct Request {
  std::int64_t images = 1;
  /// Image tokens down; an image has token_rows * token_columns of them. A token of a U-Net is one latent.
  std::int64_t token_rows = 64;
  std::int64_t token_columns = 64;
  std::int64_t reference_rows = 0;  ///< of the image that is edited or begun with; 0 where there is none
  std::int64_t reference_columns = 0;
  std::int64_t text_tokens = 512;
  std::int64_t steps = 28;
  Sampler sampler = Sampler::kEuler;
  std::optional<double> shift = std::nullopt;  ///< of noise levels, where it is not the model's own
  std::optional<double> eta = std::nullopt;    ///< of the sampler tcd, where it is not 0
  std::string obstacle_to_sampler = {};        ///< why the model's own scheduler cannot run, where no sampler is named
  std::int64_t added_steps = 0;                ///< that the scheduler makes of so many steps more, or fewer
  double guidance_scale = 1;
  double true_cfg_scale = 1;  ///< of classifier-free guidance
  double strength = 0;  ///< of the noise on the image that the loop begins with; 0 where it begins with noise alone
  /// Two passes a step, unguided and guided, as one batch of twice the images (Ho and Salimans, "Classifier-Free
  /// Diffusion Guidance", 2022).
  bool classifier_free_guidance = false;

  [[nodiscard]] std::int64_t image_tokens() const { return token_rows * token_columns; }
  [[nodiscard]] std::int64_t reference_tokens() const { return reference_rows * reference_columns; }
  /// The last ones of all steps: those behind the level that an image is begun with.
  [[nodiscard]] std::int64_t taken_steps() const {
    return strength == 0 ? steps : std::min(steps, static_cast<std::int64_t>(static_cast<double>(steps) * strength));
  }
  /// Iterations of the denoise loop: forward passes of the denoiser.
  [[nodiscard]] std::int64_t calls() const { return count_calls(sampler, taken_steps() + added_steps); }
  /// Batch of a forward pass.
  [[nodiscard]] std::int64_t batch() const { return classifier_free_guidance ? 2 * images : images; }
  friend bool operator==(const Request&, const Request&) = default;
};

/// One image to make.
struct ImageRequest {
  /// Which of the pipeline's labels it shows, or which of its prompts is meant where none is given; of a pipeline that
  /// reads no text the number of a random prompt.
  std::int64_t label = 0;
  std::uint64_t seed = 0;  ///< of its noise
  std::optional<std::string> prompt = std::nullopt;
  std::optional<std::string> prompt_2 = std::nullopt;         ///< what the second text encoder reads, if not the prompt
  std::optional<std::string> negative_prompt = std::nullopt;  ///< what classifier-free guidance leads away from
  std::optional<std::string> negative_prompt_2 = std::nullopt;  ///< of the second text encoder, if another
  HostTensor noise = {};                                        ///< latents f32 in place of the seed's; empty for those
  /// Pixels [1, channels, height, width] f32 in [-1, 1] of the image that is edited or begun with.
  HostTensor reference = {};
};

}  // namespace headroom
