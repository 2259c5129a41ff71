#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/unets/live_stream_unet.hpp"

namespace headroom {

LiveStreamUNetConfig parse_live_stream_unet_config(const nlohmann::json& json) {
  using namespace config;
  constexpr std::int64_t kFramesSeen = 3, kMostFrames = 4096;
  require_class(json, "LiveStreamUNet");
  LiveStreamUNetConfig unet;
  unet.out_channels = 3;
  unet.in_channels = kFramesSeen * unet.out_channels;
  unet.block_out_channels = {192, 384, 768, 2560};
  unet.down_attends = {false, false, true, true};
  unet.up_attends = {true, true, false, false};
  require_text(json, "resnet_time_scale_shift", "scale_shift");
  read_unet_config(json, kPixelBlockTypes, unet);
  unet.time_norm = TimeNorm::kScaleShift;
  unet.upsample_narrows = true;
  unet.attention_head_dim = read_int(json, "attention_head_dim", unet.attention_head_dim, 1, kMaxExtent);
  unet.memory_frames = read_int(json, "memory_frames", unet.memory_frames, 1, kMostFrames);
  unet.memory_dim = read_int(json, "memory_dim", unet.memory_dim, 1, kMaxExtent);
  if (unet.in_channels != kFramesSeen * unet.out_channels)
    fail("config.json: in_channels is {}, expected {}, {} frames of out_channels, which is {}", unet.in_channels,
         kFramesSeen * unet.out_channels, kFramesSeen, unet.out_channels);
  if (!unet.has_mid_block) fail("config.json: mid_block_type is null, but frames are remembered by what is there");
  require_whole_heads(unet, unet.attention_head_dim);
  return unet;
}

nlohmann::json live_stream_unet_config() {
  return {{"_class_name", "LiveStreamUNet"},
          {"sample_size", 64},
          {"in_channels", 9},
          {"out_channels", 3},
          {"down_block_types", {"DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"}},
          {"up_block_types", {"AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D"}},
          {"block_out_channels", {192, 384, 768, 2560}},
          {"layers_per_block", 1},
          {"attention_head_dim", 64},
          {"norm_num_groups", 32},
          {"memory_frames", 32},
          {"memory_dim", 512}};
}

}  // namespace headroom
