#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.hpp"
#include "models/component.hpp"

namespace headroom {

/// The `_class_name` of FLUX's transformer.
inline constexpr std::string_view kFluxTransformer = "FluxTransformer2DModel";

/// Pixels along one side of a FLUX.1 token: 8 by its decoder, times patches of 2.
inline constexpr std::int64_t kFluxTokenPixels = 16;

/// The configuration of a `FluxTransformer2DModel`, under the names of its config.json.
struct FluxConfig {
  std::int64_t in_channels = 64;
  std::int64_t out_channels = 64;
  std::int64_t num_layers = 19;         ///< double-stream blocks: text and image with separate weights
  std::int64_t num_single_layers = 38;  ///< single-stream blocks over [text, image]
  std::int64_t attention_head_dim = 128;
  std::int64_t num_attention_heads = 24;
  std::int64_t joint_attention_dim = 4096;   ///< of encoder_hidden_states
  std::int64_t pooled_projection_dim = 768;  ///< of pooled_projections
  bool guidance_embeds = true;
  std::vector<std::int64_t> axes_dims_rope = {16, 56, 56};

  /// Width of the token stream.
  [[nodiscard]] std::int64_t dim() const { return attention_head_dim * num_attention_heads; }
};

/// Reads config.json as written by diffusers; a missing key means the class's default. Throws Error that names the
/// key and the value if it is no valid FLUX configuration: wrong class or type, sizes below 1, odd axes, or axes that
/// do not add up to the head size.
[[nodiscard]] FluxConfig parse_flux_config(const nlohmann::json& config);
/// FLUX.1-dev: 19 double and 38 single blocks of 24 heads x 128, 11.9 billion parameters.
[[nodiscard]] nlohmann::json flux_dev_config();
/// The configuration for a name such as "flux-512x4+8": a FLUX of that width, in heads of 128, with that many double
/// and single blocks. Nothing for other names.
[[nodiscard]] std::optional<nlohmann::json> flux_config_of_size(const std::string& name);

/// Sizes of one forward pass.
struct FluxShape {
  std::int64_t batch = 1;
  std::int64_t image_tokens = 4096;
  std::int64_t text_tokens = 512;
  std::int64_t reference_tokens = 0;  ///< tokens of an image to edit, after the others
};

/// The tensors of one forward pass, as diffusers names them.
struct FluxInputs {
  ValueId hidden_states;          ///< [batch, image_tokens, in_channels]
  ValueId encoder_hidden_states;  ///< [batch, text_tokens, joint_attention_dim]
  ValueId pooled_projections;     ///< [batch, pooled_projection_dim]
  ValueId timestep;               ///< [batch], in [0, 1]
  ValueId img_ids;                ///< [image_tokens, axes]
  ValueId txt_ids;                ///< [text_tokens, axes]
  ValueId guidance = kNoValue;    ///< [batch]; if the configuration has guidance_embeds
};

/// The transformer of FLUX.1 (Black Forest Labs, 2024), equal to diffusers' FluxTransformer2DModel, in plain ops.
/// Returns `sample` [batch, image_tokens, out_channels].
[[nodiscard]] ValueId build_flux(Builder& builder, const FluxConfig& config, const FluxInputs& inputs,
                                 const ParamSource& params);

/// One forward pass as a separate graph: f32 inputs under diffusers' argument names, output `sample`.
[[nodiscard]] Graph build_flux_forward(const FluxConfig& config, const FluxShape& shape, const ParamSource& params);

/// Its pass is `forward`.
[[nodiscard]] ComponentClass flux_transformer_class();

}  // namespace headroom
