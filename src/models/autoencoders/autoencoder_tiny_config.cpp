#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder_tiny.hpp"
#include "models/config.hpp"

namespace headroom {
namespace {

void require_equal_widths(const nlohmann::json& json, const char* widths_key, const std::vector<std::int64_t>& widths,
                          const char* blocks_key, const std::vector<std::int64_t>& blocks) {
  if (std::ranges::adjacent_find(widths, std::ranges::not_equal_to()) != widths.end())
    fail("config.json: {} is {}, expected equal widths", widths_key, json[widths_key].dump());
  if (widths.size() != blocks.size())
    fail("config.json: {} has {} widths and {} has {} blocks, expected as many", widths_key, widths.size(), blocks_key,
         blocks.size());
}

}  // namespace

AutoencoderTinyConfig parse_autoencoder_tiny_config(const nlohmann::json& json) {
  using namespace config;
  constexpr std::size_t kMaxBlocks = 8;
  constexpr std::int64_t kUpsampling = 2;
  require_class(json, "AutoencoderTiny");
  require_text(json, "act_fn", "relu");
  require_text(json, "upsample_fn", "nearest");
  AutoencoderTinyConfig vae;
  vae.in_channels = read_int(json, "in_channels", vae.in_channels, 1, kMaxExtent);
  vae.out_channels = read_int(json, "out_channels", vae.out_channels, 1, kMaxExtent);
  vae.latent_channels = read_int(json, "latent_channels", vae.latent_channels, 1, kMaxExtent);
  vae.encoder_block_out_channels =
      read_ints(json, "encoder_block_out_channels", vae.encoder_block_out_channels, 1, kMaxExtent);
  vae.decoder_block_out_channels =
      read_ints(json, "decoder_block_out_channels", vae.decoder_block_out_channels, 1, kMaxExtent);
  vae.num_encoder_blocks = read_ints(json, "num_encoder_blocks", vae.num_encoder_blocks, 0, kMaxLayers);
  vae.num_decoder_blocks = read_ints(json, "num_decoder_blocks", vae.num_decoder_blocks, 0, kMaxLayers);
  vae.scaling_factor = read_double(json, "scaling_factor", vae.scaling_factor);
  vae.shift_factor = read_double(json, "shift_factor", vae.shift_factor);
  require_equal_widths(json, "encoder_block_out_channels", vae.encoder_block_out_channels, "num_encoder_blocks",
                       vae.num_encoder_blocks);
  require_equal_widths(json, "decoder_block_out_channels", vae.decoder_block_out_channels, "num_decoder_blocks",
                       vae.num_decoder_blocks);
  // The encoder halves the image between its blocks; the decoder's upsampling must match.
  static_cast<void>(read_int(json, "upsampling_scaling_factor", kUpsampling, kUpsampling, kUpsampling));
  if (vae.num_encoder_blocks.size() != vae.num_decoder_blocks.size() || vae.num_encoder_blocks.size() > kMaxBlocks)
    fail(
        "config.json: there are {} blocks in num_encoder_blocks and {} in num_decoder_blocks, expected as many, at "
        "most {}",
        vae.num_encoder_blocks.size(), vae.num_decoder_blocks.size(), kMaxBlocks);
  return vae;
}

nlohmann::json taesd_config() { return {{"_class_name", "AutoencoderTiny"}}; }

}  // namespace headroom
