#pragma once

#include "models/adapter_names.hpp"

namespace headroom {

/// The module names of FLUX's transformer in LoRA files. Supported are the names of diffusers, of Black Forest Labs'
/// own code, where one matmul computes queries, keys and values, and of XLabs' attention processors.
[[nodiscard]] AdapterNames flux_adapter_names();

}  // namespace headroom
