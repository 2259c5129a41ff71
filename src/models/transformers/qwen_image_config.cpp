#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/transformers/qwen_image.hpp"

namespace headroom {

QwenImageConfig parse_qwen_image_config(const nlohmann::json& config) {
  using namespace config;
  require_class(config, kQwenImageTransformer);
  for (const char* const key : {"guidance_embeds", "zero_cond_t", "use_additional_t_cond", "use_layer3d_rope"})
    require_value(config, key, false);
  QwenImageConfig qwen;
  qwen.patch_size = read_int(config, "patch_size", qwen.patch_size, 1, 64);
  qwen.in_channels = read_int(config, "in_channels", qwen.in_channels, 1, kMaxExtent);
  qwen.out_channels = read_int(config, "out_channels", qwen.out_channels, 1, kMaxExtent);
  qwen.num_layers = read_int(config, "num_layers", qwen.num_layers, 1, kMaxLayers);
  qwen.attention_head_dim = read_int(config, "attention_head_dim", qwen.attention_head_dim, 2, kMaxExtent);
  qwen.num_attention_heads = read_int(config, "num_attention_heads", qwen.num_attention_heads, 1, kMaxLayers);
  if (qwen.dim() > kMaxExtent)
    fail("config.json: num_attention_heads times attention_head_dim is {}, expected {} at most", qwen.dim(),
         kMaxExtent);
  qwen.joint_attention_dim = read_int(config, "joint_attention_dim", qwen.joint_attention_dim, 1, kMaxExtent);
  qwen.axes_dims_rope = read_rope_axes(config, qwen.axes_dims_rope, qwen.attention_head_dim);
  if (std::ssize(qwen.axes_dims_rope) != kQwenImageAxes)
    fail("config.json: axes_dims_rope has {} sizes, expected {}: frame, row and column", qwen.axes_dims_rope.size(),
         kQwenImageAxes);
  return qwen;
}

nlohmann::json qwen_image_config() {
  return {{"_class_name", kQwenImageTransformer},
          {"patch_size", 2},
          {"in_channels", 64},
          {"out_channels", 16},
          {"num_layers", 60},
          {"attention_head_dim", 128},
          {"num_attention_heads", 24},
          {"joint_attention_dim", 3584},
          {"guidance_embeds", false},
          {"axes_dims_rope", {16, 56, 56}}};
}

}  // namespace headroom
