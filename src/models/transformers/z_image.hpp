#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"
#include "models/component.hpp"

namespace headroom {

/// The `_class_name` of Z-Image's transformer.
inline constexpr std::string_view kZImageTransformer = "ZImageTransformer2DModel";

/// Pixels along one side of a token: 8 by its decoder, times patches of 2.
inline constexpr std::int64_t kZImageTokenPixels = 16;
/// Axes of a token's position: place behind the text, row, column.
inline constexpr std::int64_t kZImageAxes = 3;

/// The configuration of a `ZImageTransformer2DModel`, under the names of its config.json.
struct ZImageConfig {
  std::int64_t in_channels = 16;  ///< of a latent
  std::int64_t dim = 3840;        ///< of the token stream
  std::int64_t n_layers = 30;
  std::int64_t n_refiner_layers = 2;
  std::int64_t n_heads = 30;
  double norm_eps = 1e-5;
  std::int64_t cap_feat_dim = 2560;  ///< of encoder_hidden_states
  double rope_theta = 256;
  double t_scale = 1000;
  std::vector<std::int64_t> axes_dims = {32, 48, 48};

  [[nodiscard]] std::int64_t head_dim() const { return dim / n_heads; }
  /// Channels of a token: the latents of a 2x2 patch, latent by latent.
  [[nodiscard]] std::int64_t token_channels() const { return 4 * in_channels; }
  [[nodiscard]] std::int64_t feed_forward_width() const {
    return static_cast<std::int64_t>(static_cast<double>(dim) / 3 * 8);
  }
  /// Of the embedded timestep.
  [[nodiscard]] std::int64_t modulation_channels() const;
};

/// Reads config.json as written by diffusers; a missing key means the class's default. Throws Error that names the key
/// and the value for another class, sizes that do not fit each other, other patches, and the variant that also reads
/// image features (`siglip_feat_dim`).
[[nodiscard]] ZImageConfig parse_z_image_config(const nlohmann::json& config);
/// Z-Image and Z-Image-Turbo: 30 blocks of 30 heads x 128, 6.15 billion parameters.
[[nodiscard]] nlohmann::json z_image_config();

/// Tokens of a text or image with its padding, which is part of what the model was trained on.
[[nodiscard]] std::int64_t z_image_padded(std::int64_t tokens);

/// The tensors of one forward pass.
struct ZImageInputs {
  ValueId hidden_states;          ///< [batch, image tokens, token channels]
  ValueId encoder_hidden_states;  ///< [batch, text tokens, cap_feat_dim], or [1, ...] with text_lengths
  ValueId timestep;               ///< [batch], 1 - the noise level; with text_lengths all equal
  ValueId img_ids;                ///< (0, row, column) of image tokens, [image tokens, axes]
  /// Of each row, if they differ: encoder_hidden_states are then all texts, one after the other.
  std::vector<std::int64_t> text_lengths = {};
};

/// The transformer of Z-Image (Tongyi-MAI, "Z-Image", 2025), equal to diffusers' ZImageTransformer2DModel for one image
/// of each text, in plain ops. Image and text are refined apart and then go through the same blocks. Each is padded to
/// a multiple of 32 tokens by a learned one, to which others attend. Returns `sample` [batch, image tokens, token
/// channels], the velocity towards the image.
[[nodiscard]] ValueId build_z_image(Builder& builder, const ZImageConfig& config, const ZImageInputs& inputs,
                                    const ParamSource& params);

/// Its pass is `forward`.
[[nodiscard]] ComponentClass z_image_transformer_class();

}  // namespace headroom
