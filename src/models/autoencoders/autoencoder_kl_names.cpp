#include "models/autoencoders/autoencoder_kl_names.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/autoencoders/autoencoder_kl.hpp"

namespace headroom {
namespace {

class LdmAliases {
 public:
  explicit LdmAliases(const AutoencoderKLConfig& config) : config_(config) {}

  [[nodiscard]] std::vector<ModuleAlias> take() {
    const auto levels = static_cast<std::int64_t>(config_.block_out_channels.size());
    for (const char* const half : {"encoder", "decoder"}) add_half(half);
    for (std::int64_t level = 0; level < levels; ++level) {
      add_resnets(fmt::format("encoder.down.{}", level), fmt::format("encoder.down_blocks.{}", level),
                  config_.layers_per_block);
      add(fmt::format("encoder.down.{}.downsample.conv", level),
          fmt::format("encoder.down_blocks.{}.downsamplers.0.conv", level));
      // LDM numbers the decoder's blocks as the encoder's, from the image's side on.
      const std::string up = fmt::format("decoder.up.{}", levels - 1 - level);
      const std::string ours = fmt::format("decoder.up_blocks.{}", level);
      add_resnets(up, ours, config_.layers_per_block + 1);
      add(up + ".upsample.conv", ours + ".upsamplers.0.conv");
    }
    return std::move(all_);
  }

 private:
  void add(std::string name, std::string module) {
    all_.push_back({.name = std::move(name), .modules = {std::move(module)}});
  }

  void add_half(const std::string& half) {
    add(half + ".norm_out", half + ".conv_norm_out");
    for (const int i : {0, 1})
      add_resnet(fmt::format("{}.mid.block_{}", half, i + 1), fmt::format("{}.mid_block.resnets.{}", half, i));
    for (const auto& [theirs, ours] : {std::pair("norm", "group_norm"), std::pair("q", "to_q"), std::pair("k", "to_k"),
                                       std::pair("v", "to_v"), std::pair("proj_out", "to_out.0")})
      add(fmt::format("{}.mid.attn_1.{}", half, theirs), fmt::format("{}.mid_block.attentions.0.{}", half, ours));
  }

  void add_resnets(const std::string& theirs, const std::string& ours, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j)
      add_resnet(fmt::format("{}.block.{}", theirs, j), fmt::format("{}.resnets.{}", ours, j));
  }

  void add_resnet(const std::string& theirs, const std::string& ours) {
    for (const char* const end : {"norm1", "conv1", "norm2", "conv2"})
      add(fmt::format("{}.{}", theirs, end), fmt::format("{}.{}", ours, end));
    add(theirs + ".nin_shortcut", ours + ".conv_shortcut");
  }

  const AutoencoderKLConfig& config_;
  std::vector<ModuleAlias> all_;
};

std::vector<ModuleAlias> ldm_aliases(const nlohmann::json& json) {
  const AutoencoderKLConfig config = parse_autoencoder_kl_config(json);
  return LdmAliases(config).take();
}

}  // namespace

AdapterNames autoencoder_kl_names() { return {.aliases = ldm_aliases}; }

nlohmann::json infer_autoencoder_kl_config(const NamedShapes& shapes) {
  std::vector<std::int64_t> widths;
  for (std::int64_t level = 0, count = shapes.count("encoder.down.{}.block.0.conv1.weight"); level < count; ++level)
    widths.push_back(shapes.extent(fmt::format("encoder.down.{}.block.0.conv1.weight", level), 0));
  if (widths.empty())
    fail("{} has no encoder.down.0.block.0.conv1.weight, from which the network is inferred", shapes.context());
  const std::vector<std::string> down(widths.size(), "DownEncoderBlock2D"), up(widths.size(), "UpDecoderBlock2D");
  return {{"_class_name", "AutoencoderKL"},
          {"in_channels", shapes.extent("encoder.conv_in.weight", 1)},
          {"out_channels", shapes.extent("decoder.conv_out.weight", 0)},
          {"latent_channels", shapes.extent("decoder.conv_in.weight", 1)},
          {"block_out_channels", widths},
          {"down_block_types", down},
          {"up_block_types", up},
          {"layers_per_block", shapes.count("encoder.down.0.block.{}.conv1.weight")},
          {"use_quant_conv", shapes.has("quant_conv.weight")},
          {"use_post_quant_conv", shapes.has("post_quant_conv.weight")},
          {"mid_block_add_attention", shapes.has("decoder.mid.attn_1.q.weight")}};
}

}  // namespace headroom
