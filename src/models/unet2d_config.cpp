#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>

#include "models/config.hpp"
#include "models/unet2d.hpp"

namespace headroom {
namespace {

constexpr UNetBlockTypes kPixelTypes{.down = "DownBlock2D",
                                     .down_attending = "AttnDownBlock2D",
                                     .up = "UpBlock2D",
                                     .up_attending = "AttnUpBlock2D",
                                     .mid = "UNetMidBlock2D"};

bool read_has_fourier_time(const nlohmann::json& json) {
  const std::string type = config::read_text(json, "time_embedding_type", "positional");
  if (type != "positional" && type != "fourier")
    fail(R"(config.json: time_embedding_type is "{}", expected "positional" or "fourier")", type);
  return type == "fourier";
}

/// Null where config.json says null, which is not to say nothing.
std::optional<std::int64_t> read_head_dim(const nlohmann::json& json) {
  constexpr const char* kKey = "attention_head_dim";
  if (json.contains(kKey) && json[kKey].is_null()) return std::nullopt;
  return config::read_int(json, kKey, 8, 1, config::kMaxExtent);
}

/// Where none are said, a middle whose resnets add the time is normed as these are; others are not.
std::optional<std::int64_t> read_mid_norm_groups(const nlohmann::json& json, const UNet2DConfig& unet) {
  constexpr const char* kKey = "attn_norm_num_groups";
  const std::int64_t width = unet.block_out_channels.back();
  const std::int64_t groups = config::read_int(json, kKey, 0, 1, config::kMaxExtent);
  if (groups == 0) return unet.time_norm == TimeNorm::kAdd ? std::optional(unet.norm_num_groups) : std::nullopt;
  if (width % groups != 0) fail("config.json: {} is {}, expected a divisor of {} channels", kKey, groups, width);
  return groups;
}

void require_whole_heads(const UNet2DConfig& unet) {
  const std::size_t levels = unet.levels();
  for (std::size_t level = 0; level < levels; ++level) {
    const bool attends = unet.down_attends[level] || unet.up_attends[level] || level + 1 == levels;
    if (attends && unet.attention_head_dim && unet.block_out_channels[level] % *unet.attention_head_dim != 0)
      fail("config.json: attention_head_dim is {}, expected a divisor of block_out_channels [{}]",
           *unet.attention_head_dim, fmt::join(unet.block_out_channels, ","));
  }
}

}  // namespace

UNet2DConfig parse_unet2d_config(const nlohmann::json& json) {
  using namespace config;
  require_class(json, kUNet2D);
  require_text(json, "downsample_type", "conv");
  require_text(json, "upsample_type", "conv");
  UNet2DConfig unet;
  unet.in_channels = unet.out_channels = 3;
  unet.block_out_channels = {224, 448, 672, 896};
  unet.down_attends = {false, true, true, true};
  unet.up_attends = {true, true, true, false};
  read_unet_config(json, kPixelTypes, unet);
  unet.mid_attends = read_bool(json, "add_attention", true);
  unet.has_fourier_time = read_has_fourier_time(json);
  unet.attention_head_dim = read_head_dim(json);
  unet.mid_norm_groups = read_mid_norm_groups(json, unet);
  require_whole_heads(unet);
  return unet;
}

nlohmann::json pixel_unet_config() {
  return {{"_class_name", kUNet2D},
          {"sample_size", 64},
          {"in_channels", 3},
          {"out_channels", 3},
          {"down_block_types", {"DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"}},
          {"up_block_types", {"AttnUpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"}},
          {"block_out_channels", {192, 384, 1152, 1536}},
          {"layers_per_block", 2},
          {"attention_head_dim", 64}};
}

}  // namespace headroom
