#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "models/component.hpp"
#include "models/unets/unet.hpp"

namespace headroom {

inline constexpr std::string_view kUNet2D = "UNet2DModel";

/// The configuration of a `UNet2DModel`, under the names of its config.json.
struct UNet2DConfig : UNetConfig {
  bool has_fourier_time = false;                   ///< time_embedding_type is "fourier" and not "positional"
  std::optional<std::int64_t> attention_head_dim;  ///< size of a head; if unset, there is one head
  std::optional<std::int64_t>
      mid_norm_groups;  ///< attn_norm_num_groups; if unset, the attention of the middle block has no norm before it

  /// The number of heads of a level.
  [[nodiscard]] std::int64_t heads(std::size_t level) const {
    return attention_head_dim ? block_out_channels[level] / *attention_head_dim : 1;
  }
};

/// Reads config.json as written by diffusers; a missing key means the class's default. Throws Error that names the
/// key and the value for unsupported features and for sizes that do not fit each other.
[[nodiscard]] UNet2DConfig parse_unet2d_config(const nlohmann::json& json);
/// RGB images of 64x64 pixels, attention at 32, 16 and 8 pixels per side: 691.78 million parameters.
[[nodiscard]] nlohmann::json pixel_unet_config();

/// diffusers' UNet2DModel (Ho et al., "Denoising diffusion probabilistic models", 2020), in plain ops: sample[b,
/// in_channels, h, w] and timestep[b] -> [b, out_channels, h, w]. With `has_fourier_time` the timestep is a noise
/// level above 0. If the height or width of a level is odd, padding makes it even.
[[nodiscard]] ValueId build_unet2d(Builder& builder, const UNet2DConfig& config, ValueId sample, ValueId timestep,
                                   const ParamSource& params);

/// Its pass is `forward`: `sample` and `timestep` to `out_sample`.
[[nodiscard]] ComponentClass unet2d_class();

}  // namespace headroom
