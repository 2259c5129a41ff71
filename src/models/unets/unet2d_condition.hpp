#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "models/component.hpp"
#include "models/unets/unet.hpp"

namespace headroom {

inline constexpr std::string_view kUNet2DCondition = "UNet2DConditionModel";

/// Pixels along one side of a latent, by the decoder of every Stable Diffusion. The U-Net's own configuration does
/// not contain it.
inline constexpr std::int64_t kLatentPixels = 8;

/// SDXL's numbers per image: original height and width, top and left of the crop, target height and width.
inline constexpr std::int64_t kTimeIds = 6;

/// The configuration of a `UNet2DConditionModel`, under the names of its config.json.
struct UNet2DConditionConfig : UNetConfig {
  std::vector<std::int64_t> heads;               ///< by level: attention_head_dim in config.json
  std::vector<std::int64_t> transformer_layers;  ///< by level: transformer_layers_per_block
  std::int64_t cross_attention_dim = 1280;       ///< of encoder_hidden_states
  bool has_text_time = false;                    ///< addition_embed_type is "text_time", as in SDXL
  std::int64_t addition_time_embed_dim = 0;      ///< sinusoids per entry of time_ids
  /// Width of text_embeds and all sinusoids of time_ids together.
  std::int64_t projection_class_embeddings_input_dim = 0;

  /// Width of text_embeds, without the sinusoids of time_ids; 0 if the model has none.
  [[nodiscard]] std::int64_t pooled_dim() const {
    return has_text_time ? projection_class_embeddings_input_dim - kTimeIds * addition_time_embed_dim : 0;
  }
};

/// Reads config.json as written by diffusers; a missing key means the class's default. Throws Error that names the
/// key and the value for unsupported features and for sizes that do not fit each other. upcast_attention is accepted,
/// as it changes nothing here: graphs are in f32, and in lower precision queries are scaled before the matmul with
/// the keys.
[[nodiscard]] UNet2DConditionConfig parse_unet2d_condition_config(const nlohmann::json& json);
[[nodiscard]] nlohmann::json sd15_unet_config();      ///< 859.52 million parameters
[[nodiscard]] nlohmann::json sd21_unet_config();      ///< 865.91 million; for 768x768, predicts v
[[nodiscard]] nlohmann::json sd_turbo_unet_config();  ///< the same network for 512x512
[[nodiscard]] nlohmann::json sdxl_unet_config();      ///< 2567.46 million

/// The tensors of one pass, under diffusers' names, in f32.
struct UNet2DConditionInputs {
  ValueId sample;                  ///< [batch, in_channels, height, width]
  ValueId timestep;                ///< [batch], from 0 to 1000
  ValueId encoder_hidden_states;   ///< [batch, tokens, cross_attention_dim]
  ValueId text_embeds = kNoValue;  ///< [batch, width of the pooled text]; both if the configuration has_text_time
  ValueId time_ids =
      kNoValue;  ///< [batch, ids]: original height and width, top and left of the crop, target height and width
};

/// The U-Net of Stable Diffusion 1.5, 2.1, Turbo and XL (Rombach et al., "High-resolution image synthesis with latent
/// diffusion models", 2022; Podell et al., "SDXL", 2023), equal to diffusers', in plain ops. Returns [batch,
/// out_channels, height, width]: the noise or v. Sizes need not be multiples of anything.
[[nodiscard]] ValueId build_unet2d_condition(Builder& builder, const UNet2DConditionConfig& config,
                                             const UNet2DConditionInputs& inputs, const ParamSource& params);

/// Its pass is `forward`: the inputs under diffusers' names to `out_sample`, the name in diffusers' exports.
[[nodiscard]] ComponentClass unet2d_condition_class();

}  // namespace headroom
