#pragma once

#include "models/adapter_names.hpp"

namespace headroom {

/// How LoRA files name the modules of FLUX's transformer: as diffusers does, as Black Forest Labs' own code does, where one
/// product makes queries, keys and values, or as XLabs' processors of attention.
[[nodiscard]] AdapterNames flux_adapter_names();

}  // namespace headroom
