#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/image_layers.hpp"

/// Code shared by the U-Nets of diffusers (Ronneberger et al., "U-Net", 2015; Ho et al., "Denoising diffusion
/// probabilistic models", 2020).
namespace headroom {

/// The part of the configuration that U-Nets share, under the names of config.json. Levels count from the image's
/// side.
struct UNetConfig {
  std::array<std::int64_t, 2> sample_size = {64, 64};  ///< height and width used in training
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  bool center_input_sample = false;
  bool flip_sin_to_cos = true;  ///< cosines come first
  std::int64_t freq_shift = 0;
  std::vector<std::int64_t> block_out_channels;  ///< by level
  std::vector<std::int64_t> layers_per_block;    ///< by level: resnets in the encoder; the decoder has one more
  std::vector<bool> down_attends;                ///< by level: whether attention follows each resnet of the encoder
  std::vector<bool> up_attends;                  ///< the same for the decoder, also by level
  bool has_mid_block = true;
  bool mid_attends = true;
  std::int64_t downsample_padding = 1;
  /// the upsampling convolution of a level outputs the width of the next level, not its own
  bool upsample_narrows = false;
  std::int64_t norm_num_groups = 32;
  double norm_eps = 1e-5;
  TimeNorm time_norm = TimeNorm::kAdd;  ///< resnet_time_scale_shift

  [[nodiscard]] std::size_t levels() const { return block_out_channels.size(); }
  /// Width of the time embedding.
  [[nodiscard]] std::int64_t time_embed_dim() const { return 4 * block_out_channels.front(); }
  [[nodiscard]] ImageNorm norm() const { return {.groups = norm_num_groups, .eps = norm_eps}; }
};

/// The block types of a class, without and with attention.
struct UNetBlockTypes {
  std::string_view down, down_attending, up, up_attending, mid;
};

/// Those of a UNet2DModel.
inline constexpr UNetBlockTypes kPixelBlockTypes{.down = "DownBlock2D",
                                                 .down_attending = "AttnDownBlock2D",
                                                 .up = "UpBlock2D",
                                                 .up_attending = "AttnUpBlock2D",
                                                 .mid = "UNetMidBlock2D"};

/// Reads the shared part of config.json into `unet`, which holds the class's defaults, with the block types in
/// `types`. Throws Error that names the key and the value for another kind of network, or for sizes that do not fit
/// each other.
void read_unet_config(const nlohmann::json& json, const UNetBlockTypes& types, UNetConfig& unet);
/// Throws Error unless the width of every level with attention, and of the middle block, is a multiple of this head
/// size.
void require_whole_heads(const UNetConfig& unet, std::int64_t head_dim);
/// json[key] as one number for each of `count` levels: a list of `count` numbers, or one number for all.
[[nodiscard]] std::vector<std::int64_t> read_by_level(const nlohmann::json& json, const char* key,
                                                      std::int64_t fallback, std::size_t count, std::int64_t high);

/// The position of an attention layer.
struct UNetPlace {
  std::string name;       ///< below the path of its block: "attentions.0"
  std::size_t level = 0;  ///< from the image's side
  bool is_middle = false;
};
/// Attention at `place`: x[b, c, h, w] -> the same shape
using Attend = std::function<ValueId(const UNetPlace& place, ValueId x)>;

/// The network from `conv_in` to `conv_out`: sample[b, in_channels, h, w] and the time embedding [b, time_embed_dim]
/// -> [b, out_channels, h, w].
[[nodiscard]] ValueId build_unet(Builder& builder, const UNetConfig& config, ValueId sample, ValueId time,
                                 const Attend& attend, const ParamSource& params);

/// Sinusoids of t[b], [b, dim], in the order and with the shift of the configuration.
[[nodiscard]] ValueId time_sinusoids(Builder& builder, const UNetConfig& config, ValueId t, std::int64_t dim);
/// linear_1, SiLU, linear_2: x[b, in] -> [b, time_embed_dim]
[[nodiscard]] ValueId time_embedding(Builder& builder, const UNetConfig& config, std::string_view name, ValueId x,
                                     const ParamSource& params);

}  // namespace headroom
