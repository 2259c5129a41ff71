#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "models/flux.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMaxExtent = 1 << 20;  // far above any model; keeps products of extents inside 64 bits
constexpr std::int64_t kMaxLayers = 4096;

/// config[key] as an integer in [low, high], or `fallback` where the key is missing or null.
std::int64_t read_int(const nlohmann::json& config, const char* key, std::int64_t fallback, std::int64_t low,
                      std::int64_t high) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return fallback;
  if (!found->is_number_integer()) fail("config.json: {} is {}, expected a whole number", key, found->dump());
  const auto value = found->get<std::int64_t>();
  const bool wraps = found->is_number_unsigned() && value < 0;
  if (wraps || value < low || value > high)
    fail("config.json: {} is {}, expected {} to {}", key, found->dump(), low, high);
  return value;
}

std::vector<std::int64_t> read_axes(const nlohmann::json& config, std::vector<std::int64_t> fallback) {
  const auto found = config.find("axes_dims_rope");
  if (found == config.end() || found->is_null()) return fallback;
  if (!found->is_array() || found->empty())
    fail("config.json: axes_dims_rope is {}, expected a list of even sizes", found->dump());
  std::vector<std::int64_t> axes;
  for (const auto& axis : *found) {
    if (!axis.is_number_integer() || axis.get<std::int64_t>() < 2 || axis.get<std::int64_t>() % 2 != 0 ||
        axis.get<std::int64_t>() > kMaxExtent)
      fail("config.json: axes_dims_rope is {}, expected even sizes of at least 2", found->dump());
    axes.push_back(axis.get<std::int64_t>());
  }
  return axes;
}

}  // namespace

FluxConfig parse_flux_config(const nlohmann::json& config) {
  if (!config.is_object()) fail("config.json: expected an object, got {}", config.type_name());
  const auto name = config.find("_class_name");
  if (name == config.end() || *name != "FluxTransformer2DModel")
    fail("config.json: _class_name is {}, expected \"FluxTransformer2DModel\"",
         name == config.end() ? "missing" : name->dump());
  if (read_int(config, "patch_size", 1, 1, kMaxExtent) != 1)
    fail("config.json: patch_size is {}, expected 1 (FLUX packs patches before the transformer)",
         config["patch_size"].dump());

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
  if (const auto guidance = config.find("guidance_embeds"); guidance == config.end() || guidance->is_null()) {
    flux.guidance_embeds = false;
  } else {
    if (!guidance->is_boolean()) fail("config.json: guidance_embeds is {}, expected true or false", guidance->dump());
    flux.guidance_embeds = guidance->get<bool>();
  }
  flux.axes_dims_rope = read_axes(config, flux.axes_dims_rope);
  const std::int64_t rotated = std::reduce(flux.axes_dims_rope.begin(), flux.axes_dims_rope.end());
  if (rotated != flux.attention_head_dim)
    fail("config.json: axes_dims_rope add up to {}, expected attention_head_dim, which is {}", rotated,
         flux.attention_head_dim);
  return flux;
}

nlohmann::json flux_dev_config() {
  return {{"_class_name", "FluxTransformer2DModel"},
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

}  // namespace headroom
