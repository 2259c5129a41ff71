#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"
#include "models/component.hpp"

namespace headroom {

/// The `_class_name` of FLUX.2's transformer.
inline constexpr std::string_view kFlux2Transformer = "Flux2Transformer2DModel";

/// Pixels along one side of a token of FLUX.2 and FLUX.3: 8 by the decoder, times patches of 2.
inline constexpr std::int64_t kFlux2TokenPixels = 16;
/// Axes of a token's position in FLUX.2 and FLUX.3: image, row, column, place in the text.
inline constexpr std::int64_t kFlux2Axes = 4;

/// The configuration of a `Flux2Transformer2DModel`, under the names of its config.json.
struct Flux2Config {
  std::int64_t in_channels = 128;
  std::int64_t out_channels = 128;
  std::int64_t num_layers = 8;          ///< blocks with a stream of text and one of images
  std::int64_t num_single_layers = 48;  ///< blocks over [text, images]
  std::int64_t attention_head_dim = 128;
  std::int64_t num_attention_heads = 48;
  std::int64_t joint_attention_dim = 15'360;  ///< of encoder_hidden_states
  std::int64_t timestep_guidance_channels = 256;
  double mlp_ratio = 3;
  std::vector<std::int64_t> axes_dims_rope = {32, 32, 32, 32};
  double rope_theta = 2000;
  double eps = 1e-6;
  bool guidance_embeds = true;

  /// Width of the token stream.
  [[nodiscard]] std::int64_t dim() const { return attention_head_dim * num_attention_heads; }
  [[nodiscard]] std::int64_t feed_forward_width() const {
    return static_cast<std::int64_t>(static_cast<double>(dim()) * mlp_ratio);
  }
};

/// Reads config.json as written by diffusers; a missing key means the class's default. Throws Error that names the key
/// and the value for another class, or sizes that do not fit each other.
[[nodiscard]] Flux2Config parse_flux2_config(const nlohmann::json& config);
/// FLUX.2 [klein] 4B: 5 and 20 blocks of 24 heads x 128, 3.9 billion parameters.
[[nodiscard]] nlohmann::json flux2_klein_config();

/// The tensors of one forward pass, as diffusers names them.
struct Flux2Inputs {
  ValueId hidden_states;          ///< [batch, image tokens, in_channels]; references follow the image
  ValueId encoder_hidden_states;  ///< [batch, text tokens, joint_attention_dim]
  ValueId timestep;               ///< [batch], in [0, 1]
  ValueId img_ids;                ///< [image tokens, axes]
  ValueId txt_ids;                ///< [text tokens, axes]
  ValueId guidance = kNoValue;    ///< [batch]; if the configuration has guidance_embeds
};

/// The transformer of FLUX.2 (Black Forest Labs, 2025), equal to diffusers' Flux2Transformer2DModel, in plain ops. All
/// blocks of a kind share one modulation. Returns `sample` [batch, image tokens, out_channels].
[[nodiscard]] ValueId build_flux2(Builder& builder, const Flux2Config& config, const Flux2Inputs& inputs,
                                  const ParamSource& params);

/// Its pass is `forward`.
[[nodiscard]] ComponentClass flux2_transformer_class();

}  // namespace headroom
