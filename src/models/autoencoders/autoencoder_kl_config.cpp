#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder_kl.hpp"
#include "models/autoencoders/autoencoder_kl_flux2.hpp"
#include "models/config.hpp"

namespace headroom {

AutoencoderKLConfig parse_autoencoder_kl_config(const nlohmann::json& json) {
  using namespace config;
  constexpr std::size_t kMaxBlocks = 8;
  const bool is_flux2 = class_name(json) == kAutoencoderKLFlux2;
  if (!is_flux2) require_class(json, "AutoencoderKL");
  require_texts(json, "down_block_types", "DownEncoderBlock2D");
  require_texts(json, "up_block_types", "UpDecoderBlock2D");
  require_text(json, "act_fn", "silu");
  AutoencoderKLConfig vae;
  if (is_flux2)
    vae = {.latent_channels = 32,
           .block_out_channels = {128, 256, 512, 512},
           .layers_per_block = 2,
           .sample_size = 1024,
           .scaling_factor = 1,
           .shift_factor = std::nullopt};
  vae.in_channels = read_int(json, "in_channels", vae.in_channels, 1, kMaxExtent);
  vae.out_channels = read_int(json, "out_channels", vae.out_channels, 1, kMaxExtent);
  vae.latent_channels = read_int(json, "latent_channels", vae.latent_channels, 1, kMaxExtent);
  vae.block_out_channels = read_ints(json, "block_out_channels", vae.block_out_channels, 1, kMaxExtent);
  vae.layers_per_block = read_int(json, "layers_per_block", vae.layers_per_block, 1, kMaxLayers);
  vae.norm_num_groups = read_int(json, "norm_num_groups", vae.norm_num_groups, 1, kMaxExtent);
  vae.sample_size = read_int(json, "sample_size", vae.sample_size, 1, kMaxExtent);
  if (is_flux2) {
    require_value(json, "patch_size", {2, 2});
    vae.batch_norm_eps = read_positive(json, "batch_norm_eps", vae.batch_norm_eps, 1);
    if (json.contains("decoder_block_out_channels") && !json["decoder_block_out_channels"].is_null())
      vae.decoder_block_out_channels = read_ints(json, "decoder_block_out_channels", {}, 1, kMaxExtent);
    if (const std::size_t blocks = vae.decoder_block_out_channels.size();
        blocks != 0 && blocks != vae.block_out_channels.size())
      fail("config.json: decoder_block_out_channels has {} blocks, expected {} as block_out_channels", blocks,
           vae.block_out_channels.size());
  } else {
    vae.scaling_factor = read_double(json, "scaling_factor", vae.scaling_factor);
  }
  if (json.contains("shift_factor") && !json["shift_factor"].is_null())
    vae.shift_factor = read_double(json, "shift_factor", 0);
  vae.use_quant_conv = read_bool(json, "use_quant_conv", vae.use_quant_conv);
  vae.use_post_quant_conv = read_bool(json, "use_post_quant_conv", vae.use_post_quant_conv);
  vae.mid_block_add_attention = read_bool(json, "mid_block_add_attention", vae.mid_block_add_attention);
  for (const char* const key : {"latents_mean", "latents_std"})  // per channel, in some fine-tuned models
    if (json.contains(key) && !json[key].is_null()) fail("config.json: {} is {}, expected null", key, json[key].dump());
  if (vae.block_out_channels.size() > kMaxBlocks)
    fail("config.json: block_out_channels is [{}], expected at most {} blocks", fmt::join(vae.block_out_channels, ","),
         kMaxBlocks);
  for (const auto& [key, widths] : {std::pair("block_out_channels", vae.block_out_channels),
                                    std::pair("decoder_block_out_channels", vae.decoder_block_out_channels)})
    for (const std::int64_t width : widths)
      if (width % vae.norm_num_groups != 0)
        fail("config.json: {} is [{}], expected multiples of norm_num_groups, which is {}", key, fmt::join(widths, ","),
             vae.norm_num_groups);
  return vae;
}

nlohmann::json flux2_vae_config() {
  return {{"_class_name", kAutoencoderKLFlux2},
          {"block_out_channels", {128, 256, 512, 512}},
          {"layers_per_block", 2},
          {"latent_channels", 32},
          {"norm_num_groups", 32},
          {"sample_size", 1024},
          {"batch_norm_eps", 1e-4},
          {"patch_size", {2, 2}}};
}

nlohmann::json flux_vae_config() {
  return {{"_class_name", "AutoencoderKL"}, {"block_out_channels", {128, 256, 512, 512}},
          {"layers_per_block", 2},          {"latent_channels", 16},
          {"norm_num_groups", 32},          {"sample_size", 1024},
          {"scaling_factor", 0.3611},       {"shift_factor", 0.1159},
          {"use_quant_conv", false},        {"use_post_quant_conv", false}};
}

}  // namespace headroom
