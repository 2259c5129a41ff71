#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/adapter_names.hpp"
#include "models/named_shapes.hpp"

namespace headroom {

/// The module names of an AutoencoderKL in checkpoints of CompVis, Stability AI and Black Forest Labs (LDM's names).
[[nodiscard]] AdapterNames autoencoder_kl_names();
/// The configuration of such a checkpoint. The scale and shift of latents are not in it.
[[nodiscard]] nlohmann::json infer_autoencoder_kl_config(const NamedShapes& shapes);

}  // namespace headroom
