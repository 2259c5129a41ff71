#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/adapter_names.hpp"
#include "models/named_shapes.hpp"

namespace headroom {

/// The module names of FLUX's transformer in LoRA files. Supported are the names of diffusers, of Black Forest Labs'
/// own code and checkpoints, where one matmul computes queries, keys and values, and of XLabs' attention processors.
[[nodiscard]] AdapterNames flux_adapter_names();
/// The configuration of a checkpoint in names of Black Forest Labs. Rotary axes are not in it.
[[nodiscard]] nlohmann::json infer_flux_config(const NamedShapes& shapes);

}  // namespace headroom
