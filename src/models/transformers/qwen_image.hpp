#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"
#include "models/component.hpp"

namespace headroom {

/// The `_class_name` of Qwen-Image's transformer.
inline constexpr std::string_view kQwenImageTransformer = "QwenImageTransformer2DModel";

/// Pixels along one side of a token: 8 by its decoder, times patches of 2.
inline constexpr std::int64_t kQwenImageTokenPixels = 16;
/// Axes of a token's position: frame, row, column.
inline constexpr std::int64_t kQwenImageAxes = 3;

/// The configuration of a `QwenImageTransformer2DModel`, under the names of its config.json.
struct QwenImageConfig {
  std::int64_t patch_size = 2;
  std::int64_t in_channels = 64;
  std::int64_t out_channels = 16;  ///< of one latent of a patch
  std::int64_t num_layers = 60;
  std::int64_t attention_head_dim = 128;
  std::int64_t num_attention_heads = 24;
  std::int64_t joint_attention_dim = 3584;  ///< of encoder_hidden_states
  std::vector<std::int64_t> axes_dims_rope = {16, 56, 56};

  /// Width of the token streams.
  [[nodiscard]] std::int64_t dim() const { return attention_head_dim * num_attention_heads; }
  /// Channels of a predicted token.
  [[nodiscard]] std::int64_t token_channels() const { return patch_size * patch_size * out_channels; }
};

/// Reads config.json as written by diffusers; a missing key means the class's default. Throws Error that names the key
/// and the value for another class, sizes that do not fit each other, and the variants for editing (`zero_cond_t`,
/// `use_additional_t_cond`, `use_layer3d_rope`) or with distilled guidance.
[[nodiscard]] QwenImageConfig parse_qwen_image_config(const nlohmann::json& config);
/// Qwen-Image: 60 blocks of 24 heads x 128, 20.4 billion parameters.
[[nodiscard]] nlohmann::json qwen_image_config();

/// The tensors of one forward pass, as diffusers names them, but for the positions, which it computes from img_shapes.
struct QwenImageInputs {
  ValueId hidden_states;          ///< [batch, image_tokens, in_channels]
  ValueId encoder_hidden_states;  ///< [batch, text_tokens, joint_attention_dim], or [1, ...] with text_lengths
  ValueId timestep;               ///< [batch], in [0, 1]; with text_lengths all equal
  ValueId img_ids;                ///< [image_tokens, axes]
  ValueId txt_ids;                ///< [text_tokens, axes]; of the longest text
  /// Of each row, if they differ: encoder_hidden_states are then all texts, one after the other.
  std::vector<std::int64_t> text_lengths = {};
};

/// The transformer of Qwen-Image (Wu et al., "Qwen-Image technical report", 2025), equal to diffusers'
/// QwenImageTransformer2DModel, in plain ops. Returns `sample` [batch, image_tokens, token channels].
[[nodiscard]] ValueId build_qwen_image(Builder& builder, const QwenImageConfig& config, const QwenImageInputs& inputs,
                                       const ParamSource& params);

/// Its pass is `forward`.
[[nodiscard]] ComponentClass qwen_image_transformer_class();

}  // namespace headroom
