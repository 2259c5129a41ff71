#pragma once

#include "models/adapter_names.hpp"

namespace headroom {

/// The module names of a UNet2DConditionModel in LoRA files. In addition to diffusers' own names these are
/// Stability's (`input_blocks.4.1`), used in files for SDXL, and those of attention processors, which diffusers wrote
/// in 2023.
[[nodiscard]] AdapterNames unet2d_condition_adapter_names();

}  // namespace headroom
