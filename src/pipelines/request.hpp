#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/switches.hpp"
#include "base/target.hpp"
#include "base/tensors/host_tensor.hpp"
#include "pipelines/schedules/sampler.hpp"

namespace headroom {

/// Image size in pixels; 0 if the model chooses.
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// The size of an image in tokens.
struct TokenSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  [[nodiscard]] std::int64_t tokens() const { return rows * columns; }
  friend bool operator==(const TokenSize&, const TokenSize&) = default;
};

/// Options of a request. The pipeline chooses empty fields and counts that are 0.
struct RequestOptions {
  std::int64_t images = 1;  ///< made by one generation
  std::int64_t token_rows = 0;
  std::int64_t token_columns = 0;
  std::vector<TokenSize> references = {};  ///< of the reference images, or of the starting image
  std::int64_t text_tokens = 0;
  /// Pipeline::text_lengths() of the images, if they are known already: a Generator then need not compile again.
  std::vector<std::int64_t> text_lengths = {};
  std::int64_t steps = 0;                               ///< overridden by the switch steps=N
  std::optional<double> guidance_scale = std::nullopt;  ///< 0 to 100
  /// 0 to 100. Above 1: classifier-free guidance, for a model that is otherwise guided without it. Other models
  /// ignore it. If it is open and there is a negative prompt, a model may have its own.
  std::optional<double> true_cfg_scale = std::nullopt;
  bool has_negative_prompt = false;
  std::optional<double> strength = std::nullopt;  ///< share of noise in the starting image, above 0, up to 1
  SwitchSet switches;
  std::size_t memory_limit = 0;      ///< device memory that may be used, in bytes; 0 is all of it
  bool drops_other_weights = false;  ///< before loading, frees weights in the store that this request does not use
  bool suggests_what_fits = true;    ///< errors of requests that do not fit suggest smaller ones, which takes time
  bool records_velocities = false;   ///< the loop has the output kVelocities (passes/step_caches/step_cache.hpp)
  NewWork new_work = NewWork::kMeasure;
};

/// A complete request: number and size of images, steps, sampler and guidance.
struct Request {
  std::int64_t images = 1;
  /// Image tokens along the height; an image has token_rows * token_columns of them. A token of a U-Net is one
  /// latent.
  std::int64_t token_rows = 64;
  std::int64_t token_columns = 64;
  std::vector<TokenSize> references = {};  ///< of the reference images, or of the starting image
  /// The length to which prompts are truncated or padded; only truncated, if there are text_lengths.
  std::int64_t text_tokens = 512;
  /// Text tokens of each row of a pass, if prompts are not padded; they may differ. Empty if they are.
  std::vector<std::int64_t> text_lengths = {};
  std::int64_t steps = 28;
  Sampler sampler = Sampler::kEuler;
  std::optional<double> shift = std::nullopt;  ///< of noise levels, if it differs from the model's own
  std::optional<double> eta = std::nullopt;    ///< of the sampler tcd, if it is not 0
  std::string obstacle_to_sampler = {};        ///< why the model's own scheduler cannot run, if no sampler is named
  std::int64_t added_steps = 0;                ///< steps that the scheduler adds to the requested number, or removes
  double guidance_scale = 1;
  double true_cfg_scale = 1;  ///< for classifier-free guidance
  double strength = 0;        ///< share of noise in the starting image; 0 if the loop starts from noise alone
  /// Two passes a step, unguided and guided, run as one batch of twice the images (Ho and Salimans, "Classifier-Free
  /// Diffusion Guidance", 2022).
  bool classifier_free_guidance = false;

  /// Text tokens of a row of a pass: of all rows, or of the longest one.
  [[nodiscard]] std::int64_t longest_text() const {
    return text_lengths.empty() ? text_tokens : std::ranges::max(text_lengths);
  }
  [[nodiscard]] std::int64_t image_tokens() const { return token_rows * token_columns; }
  /// Tokens of all reference images.
  [[nodiscard]] std::int64_t reference_tokens() const {
    std::int64_t tokens = 0;
    for (const TokenSize& reference : references) tokens += reference.tokens();
    return tokens;
  }
  /// The number of steps that run: with a starting image, only those after its noise level.
  [[nodiscard]] std::int64_t taken_steps() const {
    return strength == 0 ? steps : std::min(steps, static_cast<std::int64_t>(static_cast<double>(steps) * strength));
  }
  /// Iterations of the denoise loop: forward passes of the denoiser.
  [[nodiscard]] std::int64_t calls() const { return count_calls(sampler, taken_steps() + added_steps); }
  /// Batch of a forward pass.
  [[nodiscard]] std::int64_t batch() const { return classifier_free_guidance ? 2 * images : images; }
  friend bool operator==(const Request&, const Request&) = default;

  /// Another number of images, the texts of added ones as long as the last one's.
  void set_images(std::int64_t count) {
    if (!text_lengths.empty()) {
      std::vector<std::int64_t> lengths;
      for (auto first = text_lengths.begin(); first != text_lengths.end(); first += images)
        for (std::int64_t i = 0; i < count; ++i) lengths.push_back(first[std::min(i, images - 1)]);
      text_lengths = std::move(lengths);
    }
    images = count;
  }
};

/// One image to make.
struct ImageRequest {
  /// An index into the pipeline's labels, or into its prompts if `prompt` is not given. For a pipeline that reads no
  /// text, the number of a random prompt.
  std::int64_t label = 0;
  std::uint64_t seed = 0;  ///< of its noise
  std::optional<std::string> prompt = std::nullopt;
  /// For the second text encoder, if it differs from `prompt`.
  std::optional<std::string> prompt_2 = std::nullopt;
  std::optional<std::string> negative_prompt = std::nullopt;    ///< for classifier-free guidance
  std::optional<std::string> negative_prompt_2 = std::nullopt;  ///< for the second text encoder, if it differs
  /// Latents f32 that replace the seed's noise; empty to use the seed.
  HostTensor noise = {};
  /// Pixels [1, channels, height, width] f32 in [-1, 1] of each reference image, or of the starting image.
  std::vector<HostTensor> references = {};
};

}  // namespace headroom
