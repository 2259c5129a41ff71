#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/adapter_names.hpp"
#include "models/named_shapes.hpp"

namespace headroom {

/// The module names of a UNet2DConditionModel in LoRA files. In addition to diffusers' own names these are
/// Stability's (`input_blocks.4.1`), used in its checkpoints and in files for SDXL, and those of attention processors,
/// which diffusers wrote in 2023.
[[nodiscard]] AdapterNames unet2d_condition_adapter_names();
/// The configuration of a checkpoint in Stability's names. The number of heads is not in it.
[[nodiscard]] nlohmann::json infer_unet2d_condition_config(const NamedShapes& shapes);

}  // namespace headroom
