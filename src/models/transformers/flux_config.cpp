#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/transformers/flux.hpp"

namespace headroom {

FluxConfig parse_flux_config(const nlohmann::json& config) {
  using namespace config;
  require_class(config, kFluxTransformer);
  if (const std::int64_t patch = read_int(config, "patch_size", 1, 1, kMaxExtent); patch != 1)
    fail("config.json: patch_size is {}, expected 1 (FLUX packs patches before the transformer)", patch);

  FluxConfig flux;
  flux.in_channels = read_int(config, "in_channels", flux.in_channels, 1, kMaxExtent);
  flux.out_channels = read_int(config, "out_channels", flux.in_channels, 1, kMaxExtent);
  flux.num_layers = read_int(config, "num_layers", flux.num_layers, 0, kMaxLayers);
  flux.num_single_layers = read_int(config, "num_single_layers", flux.num_single_layers, 0, kMaxLayers);
  flux.attention_head_dim = read_int(config, "attention_head_dim", flux.attention_head_dim, 2, kMaxExtent);
  flux.num_attention_heads = read_int(config, "num_attention_heads", flux.num_attention_heads, 1, kMaxLayers);
  if (flux.dim() > kMaxExtent)
    fail("config.json: num_attention_heads times attention_head_dim is {}, expected {} at most", flux.dim(),
         kMaxExtent);
  flux.joint_attention_dim = read_int(config, "joint_attention_dim", flux.joint_attention_dim, 1, kMaxExtent);
  flux.pooled_projection_dim = read_int(config, "pooled_projection_dim", flux.pooled_projection_dim, 1, kMaxExtent);
  flux.guidance_embeds = read_bool(config, "guidance_embeds", false);
  flux.axes_dims_rope = read_rope_axes(config, flux.axes_dims_rope, flux.attention_head_dim);
  return flux;
}

nlohmann::json flux_dev_config() {
  return {{"_class_name", kFluxTransformer},
          {"patch_size", 1},
          {"in_channels", 64},
          {"num_layers", 19},
          {"num_single_layers", 38},
          {"attention_head_dim", 128},
          {"num_attention_heads", 24},
          {"joint_attention_dim", 4096},
          {"pooled_projection_dim", 768},
          {"guidance_embeds", true},
          {"axes_dims_rope", {16, 56, 56}}};
}

std::optional<nlohmann::json> flux_config_of_size(const std::string& name) {
  long width = 0, layers = 0, single_layers = 0;
  int end = 0;
  constexpr long kHeadDim = 128;
  constexpr long kMost = 1 << 16;
  if (std::sscanf(name.c_str(), "flux-%18ldx%18ld+%18ld%n", &width, &layers, &single_layers, &end) != 3 ||
      static_cast<std::size_t>(end) != name.size())
    return std::nullopt;
  if (width < kHeadDim || width % kHeadDim != 0 || width > kMost || layers < 1 || single_layers < 1)
    fail_usage("{}: the width must be a multiple of {} up to {}, and there must be blocks of both kinds", name,
               kHeadDim, kMost);
  nlohmann::json config = flux_dev_config();
  config["num_attention_heads"] = width / kHeadDim;
  config["num_layers"] = layers;
  config["num_single_layers"] = single_layers;
  return config;
}

}  // namespace headroom
