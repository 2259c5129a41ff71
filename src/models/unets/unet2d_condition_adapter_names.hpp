#pragma once

#include "models/adapter_names.hpp"

namespace headroom {

/// Besides diffusers' own names of a UNet2DConditionModel those of Stability's (`input_blocks.4.1`), which files for SDXL have, and
/// those of attention processors, which diffusers wrote in 2023.
[[nodiscard]] AdapterNames unet2d_condition_adapter_names();

}  // namespace headroom
