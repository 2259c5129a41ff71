#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_tensor.hpp"
#include "io/checkpoint.hpp"
#include "models/flux.hpp"
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

/// A FLUX model ready to build graphs from: its checkpoint (or random weights) and what ships beside it.
struct Model {
  std::string name;
  FluxConfig config;
  Checkpoint checkpoint;
  FlowMatchSchedule schedule;
  std::optional<PromptTable> prompts;  ///< prompts.safetensors and labels.json, where they are
  std::optional<PixelFormat> pixels;   ///< generation_config.json: pixel_format, where the model works on pixels
  std::int64_t default_steps = 28;
  double guidance_scale = 3.5;
  /// What its baseline computes in: f32 or bf16. Whoever opens the model for a device chooses.
  DType baseline = DType::kF32;

  /// Where a graph's params come from, computing in f32.
  [[nodiscard]] ParamSource params() const;
  /// The numbers that its weights are, in whatever form the checkpoint has them.
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] bool uses_classifier_free_guidance() const {
    return !config.guidance_embeds && prompts.has_value() && guidance_scale != 1.0;
  }
};

/// What the baseline on a GPU computes in: bf16 where most of the checkpoint's bytes are, else f32.
[[nodiscard]] DType checkpoint_baseline(const Checkpoint& checkpoint);

/// A model that `headroom models` lists.
struct ShippedModel {
  std::string name;
  std::string description;
  std::filesystem::path folder;  ///< empty for a configuration without a checkpoint
  std::int64_t parameters = 0;
};
[[nodiscard]] std::vector<ShippedModel> list_shipped_models();

/// Opens a shipped name, a checkpoint folder, or a size such as "flux-512x4+8" (FLUX of that width in heads of 128,
/// with 4 double and 8 single blocks), which has random weights only. With `random_seed`, random weights stand in for
/// the checkpoint (config.json is still read where there is a folder). Throws Error where the model is unknown, its
/// checkpoint is missing, or tensors are missing, unexpected or wrongly shaped.
[[nodiscard]] Model open_model(const std::string& name_or_folder,
                               std::optional<std::uint64_t> random_seed = std::nullopt);

}  // namespace headroom
