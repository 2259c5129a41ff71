#include <nlohmann/json.hpp>
#include <string>

#include "models/config.hpp"
#include "models/unets/unet2d.hpp"

namespace headroom {
namespace {

bool read_has_fourier_time(const nlohmann::json& json) {
  const std::string type = config::read_text(json, "time_embedding_type", "positional");
  if (type != "positional" && type != "fourier")
    fail(R"(config.json: time_embedding_type is "{}", expected "positional" or "fourier")", type);
  return type == "fourier";
}

/// Null if config.json has an explicit null, which differs from a missing key.
std::optional<std::int64_t> read_head_dim(const nlohmann::json& json) {
  constexpr const char* kKey = "attention_head_dim";
  if (json.contains(kKey) && json[kKey].is_null()) return std::nullopt;
  return config::read_int(json, kKey, 8, 1, config::kMaxExtent);
}

/// The default: if the resnets of the middle block add the time, its attention has a norm with their groups;
/// otherwise it has none.
std::optional<std::int64_t> read_mid_norm_groups(const nlohmann::json& json, const UNet2DConfig& unet) {
  constexpr const char* kKey = "attn_norm_num_groups";
  const std::int64_t width = unet.block_out_channels.back();
  const std::int64_t groups = config::read_int(json, kKey, 0, 1, config::kMaxExtent);
  if (groups == 0) return unet.time_norm == TimeNorm::kAdd ? std::optional(unet.norm_num_groups) : std::nullopt;
  if (width % groups != 0) fail("config.json: {} is {}, expected a divisor of {} channels", kKey, groups, width);
  return groups;
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
  read_unet_config(json, kPixelBlockTypes, unet);
  unet.mid_attends = read_bool(json, "add_attention", true);
  unet.has_fourier_time = read_has_fourier_time(json);
  unet.attention_head_dim = read_head_dim(json);
  unet.mid_norm_groups = read_mid_norm_groups(json, unet);
  if (unet.attention_head_dim) require_whole_heads(unet, *unet.attention_head_dim);
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
