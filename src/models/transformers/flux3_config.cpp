#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/transformers/flux2_common.hpp"
#include "models/transformers/flux3.hpp"

namespace headroom {

Flux3Config parse_flux3_config(const nlohmann::json& config) {
  using namespace config;
  require_class(config, kFlux3Transformer);
  Flux3Config flux;
  flux.in_channels = read_int(config, "in_channels", flux.in_channels, 1, kMaxExtent);
  flux.cond_in_channels = read_int(config, "cond_in_channels", flux.cond_in_channels, 1, kMaxExtent);
  flux.num_layers = read_int(config, "num_layers", flux.num_layers, 0, kMaxLayers);
  flux.num_single_layers = read_int(config, "num_single_layers", flux.num_single_layers, 0, kMaxLayers);
  flux.attention_head_dim = read_int(config, "attention_head_dim", flux.attention_head_dim, 2, kMaxExtent);
  flux.num_attention_heads = read_int(config, "num_attention_heads", flux.num_attention_heads, 1, kMaxLayers);
  flux.joint_attention_dim = read_int(config, "joint_attention_dim", flux.joint_attention_dim, 1, kMaxExtent);
  flux.timestep_channels = read_int(config, "timestep_channels", flux.timestep_channels, 2, kMaxExtent);
  if (flux.timestep_channels % 2 != 0)
    fail("config.json: timestep_channels is {}, expected an even number", flux.timestep_channels);
  read_flux2_widths(config, flux);
  flux.flow_map = read_bool(config, "flow_map", flux.flow_map);
  return flux;
}

nlohmann::json flux3_klein_base_config() {
  return {{"_class_name", kFlux3Transformer},
          {"in_channels", 128},
          {"cond_in_channels", 128},
          {"num_layers", 5},
          {"num_single_layers", 28},
          {"attention_head_dim", 128},
          {"num_attention_heads", 24},
          {"joint_attention_dim", 20'480},
          {"timestep_channels", 256},
          {"mlp_ratio", 3.0},
          {"axes_dims_rope", {32, 32, 32, 32}},
          {"rope_theta", 10'000},
          {"eps", 1e-6},
          {"flow_map", false}};
}

nlohmann::json flux3_klein_config() {
  nlohmann::json config = flux3_klein_base_config();
  config["flow_map"] = true;
  return config;
}

}  // namespace headroom
