#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder_kl_qwen_image.hpp"
#include "models/config.hpp"

namespace headroom {

AutoencoderKLQwenImageConfig parse_autoencoder_kl_qwen_image_config(const nlohmann::json& json) {
  using namespace config;
  constexpr std::size_t kMaxLevels = 8;
  constexpr std::int64_t kMaxLatentChannels = 4096;
  require_class(json, "AutoencoderKLQwenImage");
  require_value(json, "attn_scales", nlohmann::json::array());
  AutoencoderKLQwenImageConfig vae;
  vae.input_channels = read_int(json, "input_channels", vae.input_channels, 1, kMaxExtent);
  vae.base_dim = read_int(json, "base_dim", vae.base_dim, 1, kMaxExtent);
  vae.z_dim = read_int(json, "z_dim", vae.z_dim, 1, kMaxLatentChannels);
  vae.dim_mult = read_ints(json, "dim_mult", vae.dim_mult, 1, kMaxExtent);
  vae.num_res_blocks = read_int(json, "num_res_blocks", vae.num_res_blocks, 1, kMaxLayers);
  const std::string widths = fmt::format("{}", fmt::join(vae.dim_mult, ","));
  if (vae.dim_mult.size() > kMaxLevels)
    fail("config.json: dim_mult is [{}], expected at most {} levels", widths, kMaxLevels);
  for (std::size_t i = 0; i < vae.dim_mult.size(); ++i) {
    const std::int64_t width = vae.base_dim * vae.dim_mult[i];
    if (width > kMaxExtent)
      fail("config.json: base_dim is {} and dim_mult is [{}], expected widths up to {}", vae.base_dim, widths,
           kMaxExtent);
    if (i > 0 && width % 2 != 0)
      fail("config.json: base_dim is {} and dim_mult is [{}], expected even widths, which are halved", vae.base_dim,
           widths);
  }
  if (const auto time = json.find("temperal_downsample"); time != json.end() && !time->is_null())
    if (!time->is_array() || time->size() + 1 != vae.dim_mult.size())
      fail("config.json: temperal_downsample is {}, expected a list of {}, one less than dim_mult", time->dump(),
           vae.dim_mult.size() - 1);
  vae.latents_mean = read_doubles(json, "latents_mean", vae.z_dim);
  vae.latents_std = read_doubles(json, "latents_std", vae.z_dim);
  if (std::ranges::any_of(vae.latents_std, [](double deviation) { return !(deviation > 0); }))
    fail("config.json: latents_std is {}, expected numbers above 0", json["latents_std"].dump());
  return vae;
}

nlohmann::json qwen_image_vae_config() {
  return {{"_class_name", "AutoencoderKLQwenImage"},
          {"base_dim", 96},
          {"z_dim", 16},
          {"dim_mult", {1, 2, 4, 4}},
          {"num_res_blocks", 2},
          {"attn_scales", nlohmann::json::array()},
          {"temperal_downsample", {false, true, true}},
          {"latents_mean",
           {-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517, -0.3632,
            -0.1922, -0.9497, 0.2503, -0.2921}},
          {"latents_std",
           {2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579, 1.6382,
            1.1253, 2.8251, 1.9160}}};
}

}  // namespace headroom
