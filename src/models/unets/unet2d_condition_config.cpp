#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>

#include "models/config.hpp"
#include "models/unets/unet2d_condition.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMostTransformers = 64;
constexpr UNetBlockTypes kConditionTypes{.down = "DownBlock2D",
                                         .down_attending = "CrossAttnDownBlock2D",
                                         .up = "UpBlock2D",
                                         .up_attending = "CrossAttnUpBlock2D",
                                         .mid = "UNetMidBlock2DCrossAttn"};

/// Throws Error for other features that diffusers' class supports.
void refuse_variants(const nlohmann::json& json) {
  using config::require_value;
  for (const char* key :
       {"num_attention_heads", "reverse_transformer_layers_per_block", "encoder_hid_dim", "encoder_hid_dim_type",
        "time_embedding_act_fn", "timestep_post_act", "time_cond_proj_dim", "cross_attention_norm"})
    require_value(json, key, nullptr);
  for (const char* key : {"dual_cross_attention", "only_cross_attention", "mid_block_only_cross_attention",
                          "class_embeddings_concat", "resnet_skip_time_act"})
    require_value(json, key, false);
  require_value(json, "resnet_out_scale_factor", 1);
  require_value(json, "time_embedding_type", "positional");
  require_value(json, "attention_type", "default");
  require_value(json, "conv_in_kernel", 3);
  require_value(json, "conv_out_kernel", 3);
}

void read_text_time(const nlohmann::json& json, UNet2DConditionConfig& unet) {
  using namespace config;
  unet.has_text_time = !read_text(json, "addition_embed_type", "").empty();
  if (!unet.has_text_time) return;
  require_text(json, "addition_embed_type", "text_time");
  unet.addition_time_embed_dim = read_int(json, "addition_time_embed_dim", 0, 2, kMaxExtent);
  unet.projection_class_embeddings_input_dim =
      read_int(json, "projection_class_embeddings_input_dim", 0, 2, kMaxExtent);
  if (unet.addition_time_embed_dim % 2 != 0)
    fail("config.json: addition_time_embed_dim is {}, expected an even number", unet.addition_time_embed_dim);
  for (const char* key : {"addition_time_embed_dim", "projection_class_embeddings_input_dim"})
    if (!json.contains(key) || json[key].is_null())
      fail("config.json: {} is missing, expected a number, since addition_embed_type is \"text_time\"", key);
  if (2 * unet.freq_shift >= unet.addition_time_embed_dim)
    fail("config.json: freq_shift is {}, expected less than half of addition_time_embed_dim, which is {}",
         unet.freq_shift, unet.addition_time_embed_dim);
}

nlohmann::json stable_diffusion_unet_config() {
  return {{"_class_name", kUNet2DCondition},
          {"sample_size", 64},
          {"in_channels", 4},
          {"out_channels", 4},
          {"down_block_types", {"CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"}},
          {"up_block_types", {"UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"}},
          {"block_out_channels", {320, 640, 1280, 1280}},
          {"layers_per_block", 2},
          {"attention_head_dim", 8},
          {"cross_attention_dim", 768}};
}

}  // namespace

UNet2DConditionConfig parse_unet2d_condition_config(const nlohmann::json& json) {
  using namespace config;
  require_class(json, kUNet2DCondition);
  refuse_variants(json);
  UNet2DConditionConfig unet;
  unet.in_channels = unet.out_channels = 4;
  unet.block_out_channels = {320, 640, 1280, 1280};
  unet.down_attends = {true, true, true, false};
  unet.up_attends = {false, true, true, true};
  read_unet_config(json, kConditionTypes, unet);
  const std::size_t levels = unet.levels();
  unet.heads = read_by_level(json, "attention_head_dim", 8, levels, kMaxExtent);
  unet.transformer_layers = read_by_level(json, "transformer_layers_per_block", 1, levels, kMostTransformers);
  unet.cross_attention_dim = read_int(json, "cross_attention_dim", unet.cross_attention_dim, 1, kMaxExtent);
  static_cast<void>(read_bool(json, "use_linear_projection", false));  // it follows from the checkpoint's shapes
  static_cast<void>(read_bool(json, "upcast_attention", false));
  for (std::size_t level = 0; level < levels; ++level) {
    const bool attends = unet.down_attends[level] || unet.up_attends[level] || level + 1 == levels;
    if (attends && unet.block_out_channels[level] % unet.heads[level] != 0)
      fail(
          "config.json: attention_head_dim, the number of heads, is [{}], expected divisors of block_out_channels [{}]",
          fmt::join(unet.heads, ","), fmt::join(unet.block_out_channels, ","));
  }
  read_text_time(json, unet);
  return unet;
}

nlohmann::json sd15_unet_config() { return stable_diffusion_unet_config(); }

nlohmann::json sd_turbo_unet_config() {
  nlohmann::json config = stable_diffusion_unet_config();
  config.update(
      {{"attention_head_dim", {5, 10, 20, 20}}, {"cross_attention_dim", 1024}, {"use_linear_projection", true}});
  return config;
}

nlohmann::json sd21_unet_config() {
  nlohmann::json config = sd_turbo_unet_config();
  config.update({{"sample_size", 96}, {"upcast_attention", true}});
  return config;
}

nlohmann::json sdxl_unet_config() {
  return {{"_class_name", kUNet2DCondition},
          {"sample_size", 128},
          {"in_channels", 4},
          {"out_channels", 4},
          {"down_block_types", {"DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"}},
          {"up_block_types", {"CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"}},
          {"block_out_channels", {320, 640, 1280}},
          {"layers_per_block", 2},
          {"transformer_layers_per_block", {1, 2, 10}},
          {"attention_head_dim", {5, 10, 20}},
          {"cross_attention_dim", 2048},
          {"use_linear_projection", true},
          {"addition_embed_type", "text_time"},
          {"addition_time_embed_dim", 256},
          {"projection_class_embeddings_input_dim", 2816}};
}

}  // namespace headroom
