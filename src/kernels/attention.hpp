#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// attention on the vector units, written with Highway.
[[nodiscard]] const Kernel& highway_attention();

}  // namespace headroom
