#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_tensor.hpp"
#include "models/flux.hpp"
#include "run/component.hpp"
#include "run/schedule.hpp"

namespace headroom {

/// How images of a model that works on pixels are cut into tokens: `patch` x `patch` pixels of `channels`, in rows from
/// the top, ordered [row in patch, column in patch, channel], values in [-1, 1].
struct PixelFormat {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 1;
  std::int64_t patch = 1;
};

/// Prompts that ship with a model: one per label, and the empty one for guidance last.
struct PromptTable {
  HostTensor encoder_hidden_states;  ///< f32 [labels + 1, text_tokens, joint_attention_dim]
  HostTensor pooled_projections;     ///< f32 [labels + 1, pooled_projection_dim]
  std::vector<std::string> labels;

  [[nodiscard]] std::int64_t text_tokens() const { return encoder_hidden_states.shape()[1]; }
  [[nodiscard]] std::int64_t empty_prompt() const { return static_cast<std::int64_t>(labels.size()); }
};

/// A FLUX model that makes images: its transformer and what ships beside it.
struct Model {
  Component transformer;
  FluxConfig config;  ///< of the transformer
  FlowMatchSchedule schedule;
  std::optional<PromptTable> prompts;  ///< prompts.safetensors and labels.json, where they are
  std::optional<PixelFormat> pixels;   ///< generation_config.json: pixel_format, where the model works on pixels
  std::int64_t default_steps = 28;
  double guidance_scale = 3.5;

  /// Pixels along a token: of a model on pixels its patch.
  [[nodiscard]] std::int64_t token_pixels() const { return pixels ? pixels->patch : kFluxTokenPixels; }
  [[nodiscard]] bool uses_classifier_free_guidance() const {
    return !config.guidance_embeds && prompts.has_value() && guidance_scale != 1.0;
  }
};

/// Whether a component is one that a Model is made of.
[[nodiscard]] bool makes_images(const Component& component);
/// Throws Error where it is not, or where what lies beside its config.json is broken.
[[nodiscard]] Model make_model(Component transformer);
/// make_model() of open_component().
[[nodiscard]] Model open_model(const std::string& name_or_folder,
                               std::optional<std::uint64_t> random_seed = std::nullopt);

}  // namespace headroom
