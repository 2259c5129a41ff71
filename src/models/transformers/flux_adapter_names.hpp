#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/adapter_names.hpp"
#include "models/named_shapes.hpp"

namespace headroom {

/// The module names of FLUX.1's transformer in LoRA files. Supported are the names of diffusers, of Black Forest Labs'
/// own code and checkpoints, where one matmul computes queries, keys and values, and of XLabs' attention processors.
[[nodiscard]] AdapterNames flux_adapter_names();
/// The configuration of a checkpoint in names of Black Forest Labs. Rotary axes are not in it.
[[nodiscard]] nlohmann::json infer_flux_config(const NamedShapes& shapes);

/// Of the transformers of FLUX.2 and FLUX.3: the names of diffusers and of Black Forest Labs.
[[nodiscard]] AdapterNames flux2_adapter_names();
[[nodiscard]] AdapterNames flux3_adapter_names();
/// The configurations likewise.
[[nodiscard]] nlohmann::json infer_flux2_config(const NamedShapes& shapes);
[[nodiscard]] nlohmann::json infer_flux3_config(const NamedShapes& shapes);

}  // namespace headroom
