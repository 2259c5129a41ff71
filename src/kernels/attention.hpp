#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// attention in bf16 on a CPU's matrix tiles.
[[nodiscard]] const Kernel& amx_attention();
/// attention on the vector units, written with Highway.
[[nodiscard]] const Kernel& highway_attention();

}  // namespace headroom
