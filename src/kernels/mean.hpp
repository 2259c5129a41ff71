#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// Mean over all axes from one on, of f32 or bf16; innermost stride 1 and any strides outside, or channels-last.
[[nodiscard]] const Kernel& highway_mean();

}  // namespace headroom
