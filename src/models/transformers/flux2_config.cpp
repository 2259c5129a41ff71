#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/transformers/flux2.hpp"
#include "models/transformers/flux2_common.hpp"

namespace headroom {

Flux2Config parse_flux2_config(const nlohmann::json& config) {
  using namespace config;
  require_class(config, kFlux2Transformer);
  if (const std::int64_t patch = read_int(config, "patch_size", 1, 1, kMaxExtent); patch != 1)
    fail("config.json: patch_size is {}, expected 1 (patches are packed before the transformer)", patch);
  Flux2Config flux;
  flux.in_channels = read_int(config, "in_channels", flux.in_channels, 1, kMaxExtent);
  flux.out_channels = read_int(config, "out_channels", flux.in_channels, 1, kMaxExtent);
  flux.num_layers = read_int(config, "num_layers", flux.num_layers, 0, kMaxLayers);
  flux.num_single_layers = read_int(config, "num_single_layers", flux.num_single_layers, 0, kMaxLayers);
  flux.attention_head_dim = read_int(config, "attention_head_dim", flux.attention_head_dim, 2, kMaxExtent);
  flux.num_attention_heads = read_int(config, "num_attention_heads", flux.num_attention_heads, 1, kMaxLayers);
  flux.joint_attention_dim = read_int(config, "joint_attention_dim", flux.joint_attention_dim, 1, kMaxExtent);
  flux.timestep_guidance_channels =
      read_int(config, "timestep_guidance_channels", flux.timestep_guidance_channels, 2, kMaxExtent);
  if (flux.timestep_guidance_channels % 2 != 0)
    fail("config.json: timestep_guidance_channels is {}, expected an even number", flux.timestep_guidance_channels);
  read_flux2_widths(config, flux);
  flux.guidance_embeds = read_bool(config, "guidance_embeds", flux.guidance_embeds);
  return flux;
}

nlohmann::json flux2_klein_config() {
  return {{"_class_name", kFlux2Transformer},
          {"patch_size", 1},
          {"in_channels", 128},
          {"num_layers", 5},
          {"num_single_layers", 20},
          {"attention_head_dim", 128},
          {"num_attention_heads", 24},
          {"joint_attention_dim", 7680},
          {"timestep_guidance_channels", 256},
          {"mlp_ratio", 3.0},
          {"axes_dims_rope", {32, 32, 32, 32}},
          {"rope_theta", 2000},
          {"eps", 1e-6},
          {"guidance_embeds", false}};
}

}  // namespace headroom
