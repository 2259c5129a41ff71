#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "models/config.hpp"
#include "models/transformers/z_image.hpp"

namespace headroom {

std::int64_t ZImageConfig::modulation_channels() const {
  constexpr std::int64_t kMost = 256;
  return std::min(dim, kMost);
}

std::int64_t z_image_padded(std::int64_t tokens) {
  constexpr std::int64_t kMultiple = 32;
  return round_up(tokens, kMultiple);
}

ZImageConfig parse_z_image_config(const nlohmann::json& config) {
  using namespace config;
  require_class(config, kZImageTransformer);
  require_value(config, "all_patch_size", nlohmann::json::array({2}));
  require_value(config, "all_f_patch_size", nlohmann::json::array({1}));
  require_value(config, "qk_norm", true);
  require_value(config, "siglip_feat_dim", nullptr);
  ZImageConfig z_image;
  z_image.in_channels = read_int(config, "in_channels", z_image.in_channels, 1, kMaxExtent / 4);
  z_image.dim = read_int(config, "dim", z_image.dim, 3, kMaxExtent / 4);
  z_image.n_layers = read_int(config, "n_layers", z_image.n_layers, 1, kMaxLayers);
  z_image.n_refiner_layers = read_int(config, "n_refiner_layers", z_image.n_refiner_layers, 0, kMaxLayers);
  z_image.n_heads = read_int(config, "n_heads", z_image.n_heads, 1, kMaxLayers);
  if (z_image.dim % z_image.n_heads != 0)
    fail("config.json: dim is {}, expected a multiple of n_heads, which is {}", z_image.dim, z_image.n_heads);
  z_image.norm_eps = read_positive(config, "norm_eps", z_image.norm_eps, 1);
  z_image.cap_feat_dim = read_int(config, "cap_feat_dim", z_image.cap_feat_dim, 1, kMaxExtent);
  z_image.rope_theta = read_positive(config, "rope_theta", z_image.rope_theta, kMaxRopeTheta);
  z_image.t_scale = read_positive(config, "t_scale", z_image.t_scale, kMaxExtent);
  z_image.axes_dims = read_rope_axes(config, z_image.axes_dims, z_image.head_dim(), "axes_dims");
  if (std::ssize(z_image.axes_dims) != kZImageAxes)
    fail("config.json: axes_dims has {} sizes, expected {}: place, row and column", z_image.axes_dims.size(),
         kZImageAxes);
  return z_image;
}

nlohmann::json z_image_config() {
  return {{"_class_name", kZImageTransformer},
          {"all_patch_size", {2}},
          {"all_f_patch_size", {1}},
          {"in_channels", 16},
          {"dim", 3840},
          {"n_layers", 30},
          {"n_refiner_layers", 2},
          {"n_heads", 30},
          {"n_kv_heads", 30},
          {"norm_eps", 1e-5},
          {"qk_norm", true},
          {"cap_feat_dim", 2560},
          {"rope_theta", 256},
          {"t_scale", 1000},
          {"axes_dims", {32, 48, 48}},
          {"axes_lens", {1536, 512, 512}}};
}

}  // namespace headroom
