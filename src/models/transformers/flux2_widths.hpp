#pragma once

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/config.hpp"
#include "models/transformers/flux2.hpp"

namespace headroom {

/// Reads from a config.json what FLUX.2 and FLUX.3 have under the same names: `mlp_ratio`, `axes_dims_rope`,
/// `rope_theta` and `eps`. Heads were read before. Throws Error for sizes that do not fit each other.
template <class Config>
void read_flux2_widths(const nlohmann::json& config, Config& flux) {
  using namespace config;
  flux.mlp_ratio = read_positive(config, "mlp_ratio", flux.mlp_ratio, kMaxLayers);
  if (flux.dim() > kMaxExtent || flux.feed_forward_width() < 1 || flux.feed_forward_width() > kMaxExtent)
    fail("config.json: {} heads of {} and an mlp_ratio of {} are 0 or more than {} wide", flux.num_attention_heads,
         flux.attention_head_dim, flux.mlp_ratio, kMaxExtent);
  flux.axes_dims_rope = read_rope_axes(config, flux.axes_dims_rope, flux.attention_head_dim);
  if (std::ssize(flux.axes_dims_rope) != kFlux2Axes)
    fail("config.json: axes_dims_rope has {} sizes, expected {}: image, row, column and place in the text",
         flux.axes_dims_rope.size(), kFlux2Axes);
  flux.rope_theta = read_positive(config, "rope_theta", flux.rope_theta, kMaxRopeTheta);
  flux.eps = read_positive(config, "eps", flux.eps, 1);
}

}  // namespace headroom
